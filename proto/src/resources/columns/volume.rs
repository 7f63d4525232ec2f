//! Columns of persistent volumes and claims: their state, and what they are bound to.
//!
//! Corresponds to printPersistentVolume and printPersistentVolumeClaim in pkg/printers/internalversion/printers.go.

use super::read::{items, str_at};
use super::{Column, age, name, read, string, text};
use serde_json::{Value, json};

pub fn volume_columns() -> Vec<Column> {
    vec![
        name(),
        string("Capacity", "How much it holds.", |volume, _| json!(storage(volume, "/spec/capacity/storage"))),
        string("Access Modes", "How it can be mounted.", |volume, _| json!(access_modes(volume, "/spec/accessModes"))),
        text("Reclaim Policy", "What becomes of it once released.", "/spec/persistentVolumeReclaimPolicy"),
        string("Status", "Whether it is free, bound or released.", |volume, _| json!(phase(volume))),
        string("Claim", "The claim that it is bound to.", |volume, _| json!(claim(volume))),
        string("StorageClass", "Its storage class.", |volume, _| json!(class(volume))),
        attributes_class(),
        text("Reason", "Why it is in its state.", "/status/reason"),
        age(),
        text("VolumeMode", "File system or block device.", "/spec/volumeMode").or("<unset>").wide(),
    ]
}

pub fn claim_columns() -> Vec<Column> {
    vec![
        name(),
        string("Status", "Whether it is bound.", |claim, _| json!(phase(claim))),
        text("Volume", "The volume that it is bound to.", "/spec/volumeName"),
        string("Capacity", "How much the volume holds.", |claim, _| {
            json!(if is_bound(claim) { storage(claim, "/status/capacity/storage") } else { String::new() })
        }),
        string("Access Modes", "How the volume can be mounted.", |claim, _| {
            json!(if is_bound(claim) { access_modes(claim, "/status/accessModes") } else { String::new() })
        }),
        string("StorageClass", "Its storage class.", |claim, _| json!(class(claim))),
        attributes_class(),
        age(),
        text("VolumeMode", "File system or block device.", "/spec/volumeMode").or("<unset>").wide(),
    ]
}

fn phase(object: &Value) -> &str {
    if read::is_deleting(object) { "Terminating" } else { str_at(object, "/status/phase") }
}

fn is_bound(claim: &Value) -> bool {
    !str_at(claim, "/spec/volumeName").is_empty()
}

/// Returns a size, zero if absent.
fn storage(object: &Value, pointer: &str) -> String {
    match object.pointer(pointer) {
        Some(Value::String(size)) => size.clone(),
        _ => "0".to_owned(),
    }
}

fn claim(volume: &Value) -> String {
    match volume.pointer("/spec/claimRef").filter(|claim| claim.is_object()) {
        Some(claim) => format!("{}/{}", str_at(claim, "/namespace"), str_at(claim, "/name")),
        None => String::new(),
    }
}

/// Returns the storage class. The old annotation takes precedence over the field.
fn class(object: &Value) -> &str {
    match str_at(object, "/metadata/annotations/volume.beta.kubernetes.io~1storage-class") {
        "" => str_at(object, "/spec/storageClassName"),
        class => class,
    }
}

fn attributes_class() -> Column {
    text("VolumeAttributesClass", "Its volume attributes class.", "/spec/volumeAttributesClassName").or("<unset>")
}

/// Returns the access modes without duplicates, in a fixed order: `RWO,RWX`.
fn access_modes(object: &Value, pointer: &str) -> String {
    const SHORT: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let modes = items(object, pointer);
    let named = SHORT.iter().filter(|(mode, _)| modes.iter().any(|m| m == mode));
    read::joined(named.map(|(_, short)| *short), ",")
}

#[cfg(test)]
mod tests {
    use super::super::cells;
    use super::*;

    #[test]
    fn volumes_and_claims() {
        let metadata = json!({"name": "v", "creationTimestamp": "1970-01-01T00:00:00Z"});
        let volume = json!({"metadata": metadata, "spec": {
            "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce", "ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "gold", "volumeMode": "Filesystem",
            "claimRef": {"namespace": "books", "name": "c1"}}, "status": {"phase": "Bound"}});
        assert_eq!(
            cells(&volume_columns(), &volume, 60),
            "v | 5Gi | RWO,RWX | Delete | Bound | books/c1 | gold | <unset> |  | 60s | Filesystem"
        );
        let claim = json!({"metadata": metadata, "spec": {"storageClassName": "gold"}, "status": {"phase": "Pending"}});
        assert_eq!(cells(&claim_columns(), &claim, 60), "v | Pending |  |  |  | gold | <unset> | 60s | <unset>");
        let bound = json!({
            "metadata": {"name": "c", "deletionTimestamp": "2024-01-01T00:00:00Z",
                "annotations": {"volume.beta.kubernetes.io/storage-class": "old"}},
            "spec": {"volumeName": "v", "storageClassName": "gold", "volumeMode": "Block", "volumeAttributesClassName": "fast"},
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOncePod"]},
        });
        assert_eq!(
            cells(&claim_columns(), &bound, 60),
            "c | Terminating | v | 1Gi | RWOP | old | fast | <unknown> | Block"
        );
    }
}
