//! Error states of claims and volumes.

use super::ErrorState;
use crate::user::{claim, stateful_set};
use serde_json::{Value, json};

pub const STATES: &[ErrorState] = &[
    ErrorState {
        name: "nothing-fits",
        objects: nothing_fits,
        told: &["PersistentVolumeClaim FailedBinding: no persistent volumes available", "Pod FailedScheduling: "],
        requests_per_minute: 3,
        cured_without: &[],
    },
    ErrorState {
        name: "no-class",
        objects: no_class,
        told: &["PersistentVolumeClaim ProvisioningFailed: "],
        requests_per_minute: 2,
        cured_without: &[],
    },
    ErrorState {
        name: "no-provisioner",
        objects: no_provisioner,
        told: &["PersistentVolumeClaim ExternalProvisioning: "],
        requests_per_minute: 2,
        cured_without: &[],
    },
    ErrorState {
        name: "driver-fails",
        objects: driver_fails,
        told: &["PersistentVolumeClaim ProvisioningFailed: "],
        requests_per_minute: 4,
        cured_without: &[],
    },
    ErrorState {
        name: "driver-full",
        objects: driver_full,
        told: &["PersistentVolumeClaim ProvisioningFailed: "],
        requests_per_minute: 4,
        cured_without: &[],
    },
    ErrorState {
        name: "volume-of-another",
        objects: volume_of_another,
        told: &["PersistentVolumeClaim FailedBinding: "],
        requests_per_minute: 3,
        cured_without: &[],
    },
    ErrorState {
        name: "claim-lost",
        objects: claim_lost,
        told: &["PersistentVolumeClaim FailedBinding: volume \"never-made\" not found"],
        requests_per_minute: 2,
        cured_without: &[],
    },
    ErrorState {
        name: "attached-elsewhere",
        objects: attached_elsewhere,
        told: &["Pod FailedAttachVolume: Multi-Attach error"],
        requests_per_minute: 4,
        cured_without: &[],
    },
];

fn class(name: &str, provisioner: &str, parameters: &Value) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "parameters": parameters, "allowVolumeExpansion": true,
    })
}

fn volume(name: &str, class: &str, claim: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "csi": {"driver": "disks.example.com", "volumeHandle": name}, "claimRef": claim,
        },
    })
}

/// A claim without a class, and a StatefulSet whose pods wait for such claims.
fn nothing_fits() -> Vec<Value> {
    let mut set = stateful_set("db", 2, "db:1");
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": claim("data", "")["spec"]}]);
    vec![volume("nothing-fits", "other", &Value::Null), claim("data", ""), set]
}

fn no_class() -> Vec<Value> {
    vec![claim("data", "missing")]
}

fn no_provisioner() -> Vec<Value> {
    vec![class("no-provisioner", "nobody.example.com", &json!({})), claim("data", "no-provisioner")]
}

fn driver_fails() -> Vec<Value> {
    let faults = json!({"provisioningFaults": "1"});
    vec![class("driver-fails", "orrery.dev/simulated", &faults), claim("data", "driver-fails")]
}

fn driver_full() -> Vec<Value> {
    let capacity = json!({"capacity": "1Mi"});
    vec![class("driver-full", "orrery.dev/simulated", &capacity), claim("data", "driver-full")]
}

/// A claim names a volume that was made for another claim.
fn volume_of_another() -> Vec<Value> {
    let owner = json!({"kind": "PersistentVolumeClaim", "namespace": "volume-of-another", "name": "owner"});
    let mut data = claim("data", "kept");
    data["spec"]["volumeName"] = json!("volume-of-another");
    vec![volume("volume-of-another", "kept", &owner), data]
}

/// A claim names a volume that there is not.
fn claim_lost() -> Vec<Value> {
    let mut data = claim("data", "kept");
    data["spec"]["volumeName"] = json!("never-made");
    vec![data]
}

/// Pods on two nodes want a volume that one node at a time may have.
fn attached_elsewhere() -> Vec<Value> {
    let pod = |name: &str, node: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {
                "nodeName": node, "containers": [{"name": "c", "image": "web:1"}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            },
        })
    };
    vec![
        class("attached-elsewhere", "orrery.dev/simulated", &json!({})),
        claim("data", "attached-elsewhere"),
        pod("first", "node-0"),
        pod("second", "node-1"),
    ]
}
