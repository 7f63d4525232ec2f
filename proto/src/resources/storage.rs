//! storage.k8s.io: classes of volumes, and what drivers can do.
//!
//! Corresponds to pkg/registry/storage/rest.

use super::Resource;
use super::row::Group;

const STORAGE: Group = Group { name: "storage.k8s.io", version: "v1", package: "io.k8s.api.storage.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![
        STORAGE.cluster("csidrivers", "CSIDriver"),
        STORAGE.cluster("csinodes", "CSINode"),
        STORAGE.namespaced("csistoragecapacities", "CSIStorageCapacity"),
        STORAGE.cluster("storageclasses", "StorageClass").short("sc"),
        STORAGE.cluster("volumeattachments", "VolumeAttachment").status(),
        STORAGE.cluster("volumeattributesclasses", "VolumeAttributesClass").short("vac"),
    ]
}
