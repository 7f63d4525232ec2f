//! storage.k8s.io: classes of volumes, and what drivers can do.
//!
//! Corresponds to pkg/registry/storage/rest.

use super::columns::read::{items, str_at};
use super::columns::{age, boolean, integer, name, read, string};
use super::row::Group;
use super::{Column, Resource};
use serde_json::{Value, json};

const STORAGE: Group = Group { name: "storage.k8s.io", version: "v1", package: "io.k8s.api.storage.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![
        STORAGE.cluster("csidrivers", "CSIDriver").columns(driver_columns()),
        STORAGE.cluster("csinodes", "CSINode").columns(vec![
            name(),
            integer("Drivers", "How many drivers the node has.", |o, _| json!(read::count(o, "/spec/drivers"))),
            age(),
        ]),
        STORAGE.namespaced("csistoragecapacities", "CSIStorageCapacity"),
        STORAGE.cluster("storageclasses", "StorageClass").short("sc").columns(class_columns()),
        STORAGE.cluster("volumeattachments", "VolumeAttachment").status().columns(vec![
            name(),
            string("Attacher", "The driver that attaches.", |o, _| read::text(o, "/spec/attacher")).name_format(),
            string("PV", "The volume.", |o, _| read::text(o, "/spec/source/persistentVolumeName")),
            string("Node", "The node.", |o, _| read::text(o, "/spec/nodeName")),
            boolean("Attached", "Whether it is done.", |o, _| read::flag_or(o, "/status/attached", false)),
            age(),
        ]),
        STORAGE.cluster("volumeattributesclasses", "VolumeAttributesClass").short("vac").columns(vec![
            marked_name(),
            string("DriverName", "The driver that knows the attributes.", |o, _| read::text(o, "/driverName")),
            age(),
        ]),
    ]
}

fn driver_columns() -> Vec<Column> {
    vec![
        name(),
        boolean("AttachRequired", "Whether volumes have to be attached first.", |o, _| {
            read::flag_or(o, "/spec/attachRequired", true)
        }),
        boolean("PodInfoOnMount", "Whether the driver is told about the pod.", |o, _| {
            read::flag_or(o, "/spec/podInfoOnMount", false)
        }),
        boolean("StorageCapacity", "Whether the driver reports free space.", |o, _| {
            read::flag_or(o, "/spec/storageCapacity", false)
        }),
        string("TokenRequests", "For whom the driver gets tokens.", |o, _| {
            match o.pointer("/spec/tokenRequests").and_then(Value::as_array) {
                None => json!("<unset>"),
                Some(requests) => json!(read::joined(requests.iter().map(|r| str_at(r, "/audience")), ",")),
            }
        }),
        boolean("RequiresRepublish", "Whether mounts are refreshed.", |o, _| {
            read::flag_or(o, "/spec/requiresRepublish", false)
        }),
        string("Modes", "For which life cycles of volumes the driver is made.", |o, _| {
            let modes = read::joined(items(o, "/spec/volumeLifecycleModes").iter().filter_map(Value::as_str), ",");
            json!(if modes.is_empty() { "<none>".to_owned() } else { modes })
        }),
        age(),
    ]
}

fn class_columns() -> Vec<Column> {
    vec![
        marked_name(),
        string("Provisioner", "Who makes the volumes.", |o, _| read::text(o, "/provisioner")),
        string("ReclaimPolicy", "What becomes of released volumes.", |o, _| {
            read::text_or(o, "/reclaimPolicy", "Delete")
        }),
        string("VolumeBindingMode", "When volumes are made and bound.", |o, _| {
            read::text_or(o, "/volumeBindingMode", "Immediate")
        }),
        string("AllowVolumeExpansion", "Whether volumes can grow.", |o, _| {
            read::flag_or(o, "/allowVolumeExpansion", false)
        }),
        age(),
    ]
}

/// The default class says so beside its name.
fn marked_name() -> Column {
    string("Name", "The name of the class.", |o, _| {
        let annotation = |key: &str| str_at(o, &format!("/metadata/annotations/{}", key.replace('/', "~1"))) == "true";
        let default = annotation("storageclass.kubernetes.io/is-default-class")
            || annotation("storageclass.beta.kubernetes.io/is-default-class");
        json!(format!("{}{}", str_at(o, "/metadata/name"), if default { " (default)" } else { "" }))
    })
    .name_format()
}
