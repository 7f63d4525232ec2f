//! storage.k8s.io: classes of volumes, and the drivers that provide them.
//!
//! Corresponds to pkg/registry/storage/rest.

use super::columns::read::{items, str_at};
use super::columns::{age, flag, integer, name, read, string, text};
use super::row::Group;
use super::{Column, Resource};
use serde_json::{Value, json};

const STORAGE: Group = Group { name: "storage.k8s.io", version: "v1", package: "io.k8s.api.storage.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![
        STORAGE.cluster("csidrivers", "CSIDriver").returns_deleted().columns(driver_columns()),
        STORAGE.cluster("csinodes", "CSINode").returns_deleted().columns(vec![
            name(),
            integer("Drivers", "How many drivers the node has.", |o, _| json!(read::count(o, "/spec/drivers"))),
            age(),
        ]),
        STORAGE.namespaced("csistoragecapacities", "CSIStorageCapacity").returns_deleted(),
        STORAGE
            .cluster("storageclasses", "StorageClass")
            .returns_deleted()
            .followed_by_server()
            .short("sc")
            .columns(class_columns()),
        STORAGE.cluster("volumeattachments", "VolumeAttachment").returns_deleted().status().columns(vec![
            name(),
            text("Attacher", "The driver that attaches.", "/spec/attacher").name_format(),
            text("PV", "The volume.", "/spec/source/persistentVolumeName"),
            text("Node", "The node.", "/spec/nodeName"),
            flag("Attached", "Whether it is done.", "/status/attached", false),
            age(),
        ]),
        STORAGE.cluster("volumeattributesclasses", "VolumeAttributesClass").returns_deleted().short("vac").columns(
            vec![marked_name(), text("DriverName", "The driver that knows the attributes.", "/driverName"), age()],
        ),
    ]
}

fn driver_columns() -> Vec<Column> {
    vec![
        name(),
        flag("AttachRequired", "Whether volumes have to be attached first.", "/spec/attachRequired", true),
        flag("PodInfoOnMount", "Whether the driver is told about the pod.", "/spec/podInfoOnMount", false),
        flag("StorageCapacity", "Whether the driver reports free space.", "/spec/storageCapacity", false),
        string("TokenRequests", "For whom the driver gets tokens.", |o, _| {
            match o.pointer("/spec/tokenRequests").and_then(Value::as_array) {
                None => json!("<unset>"),
                Some(requests) => json!(read::joined(requests.iter().map(|r| str_at(r, "/audience")), ",")),
            }
        }),
        flag("RequiresRepublish", "Whether mounts are refreshed.", "/spec/requiresRepublish", false),
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
        text("Provisioner", "Who makes the volumes.", "/provisioner"),
        text("ReclaimPolicy", "What becomes of released volumes.", "/reclaimPolicy").or("Delete"),
        text("VolumeBindingMode", "When volumes are made and bound.", "/volumeBindingMode").or("Immediate"),
        string("AllowVolumeExpansion", "Whether volumes can grow.", |o, _| {
            read::flag_or(o, "/allowVolumeExpansion", false)
        }),
        age(),
    ]
}

/// The name of a class, with a mark behind that of the default class.
fn marked_name() -> Column {
    string("Name", "The name of the class.", |o, _| {
        let annotation = |key: &str| str_at(o, &format!("/metadata/annotations/{}", key.replace('/', "~1"))) == "true";
        let default = annotation("storageclass.kubernetes.io/is-default-class")
            || annotation("storageclass.beta.kubernetes.io/is-default-class");
        json!(format!("{}{}", str_at(o, "/metadata/name"), if default { " (default)" } else { "" }))
    })
    .name_format()
}
