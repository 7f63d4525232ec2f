//! `StoredObjects`, the volumes and devices of a workload: what the plugins read from caches, beside nodes and pods.

use crate::workload::{Workload, claim_of, name_of_node};
use serde_json::{Value, json};

const DRIVER: &str = "driver.example.com";
/// Volumes that a node can attach. No workload reaches it.
const ATTACHABLE: usize = 100;
const DEVICES_PER_NODE: usize = 8;

/// Objects by kind.
#[derive(Default)]
pub struct StoredObjects {
    pub claims: Vec<Value>,
    pub volumes: Vec<Value>,
    pub csi_nodes: Vec<Value>,
    pub device_claims: Vec<Value>,
    pub device_classes: Vec<Value>,
    pub slices: Vec<Value>,
}

impl StoredObjects {
    pub fn of(workload: Workload, nodes: usize, pods: usize) -> Self {
        match workload {
            Workload::Volumes => Self {
                claims: (0..pods).map(claim).collect(),
                volumes: (0..pods).map(volume).collect(),
                csi_nodes: (0..nodes).map(csi_node).collect(),
                ..Self::default()
            },
            Workload::Devices => Self {
                device_claims: (0..pods).map(device_claim).collect(),
                device_classes: vec![device_class()],
                slices: (0..nodes).map(slice).collect(),
                ..Self::default()
            },
            _ => Self::default(),
        }
    }
}

fn claim(number: usize) -> Value {
    let name = claim_of(number);
    json!({
        "metadata": {"namespace": "default", "name": name, "uid": name,
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"accessModes": ["ReadWriteOncePod"], "volumeName": format!("volume-{number}"), "storageClassName": ""},
        "status": {"phase": "Bound"},
    })
}

fn volume(number: usize) -> Value {
    let claim = claim_of(number);
    json!({
        "metadata": {"name": format!("volume-{number}")},
        "spec": {
            "accessModes": ["ReadWriteOncePod"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "default", "name": claim, "uid": claim},
            "csi": {"driver": DRIVER, "volumeHandle": format!("disk-{number}")},
        },
        "status": {"phase": "Bound"},
    })
}

fn csi_node(number: usize) -> Value {
    let name = name_of_node(number);
    let driver = json!({"name": DRIVER, "nodeID": name, "allocatable": {"count": ATTACHABLE}});
    json!({"metadata": {"name": name}, "spec": {"drivers": [driver]}})
}

fn device_class() -> Value {
    let expression = format!("device.driver == {DRIVER:?}");
    json!({"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}})
}

/// Every second device has the model that the claims want.
fn slice(number: usize) -> Value {
    let node = name_of_node(number);
    let device = |number: usize| {
        let model = if number.is_multiple_of(2) { "large" } else { "small" };
        json!({"name": format!("gpu-{number}"), "attributes": {"model": {"string": model}}})
    };
    json!({
        "metadata": {"name": node},
        "spec": {
            "driver": DRIVER, "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": (0..DEVICES_PER_NODE).map(device).collect::<Vec<_>>(),
        },
    })
}

fn device_claim(number: usize) -> Value {
    let name = claim_of(number);
    let expression = format!("device.attributes[{DRIVER:?}].model == \"large\"");
    let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1,
        "selectors": [{"cel": {"expression": expression}}]});
    json!({
        "metadata": {"namespace": "default", "name": name, "uid": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    })
}
