//! The nodes of a benchmark, without a kubelet.

use proto::meta::node_labels::{HOSTNAME, ZONE};
use serde_json::{Value, json};

/// Returns a node of scheduler_perf's size that is ready though nobody runs it.
pub fn node(name: &str, zone: &str) -> Value {
    of_size(name, zone, &json!({"cpu": "4", "memory": "32Gi", "pods": "110"}))
}

/// Returns a node with these resources.
pub fn of_size(name: &str, zone: &str, resources: &Value) -> Value {
    let ready = json!({"type": "Ready", "status": "True", "reason": "Benchmark", "message": "nobody runs this node"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: zone}},
        "status": {"capacity": resources, "allocatable": resources, "conditions": [ready]},
    })
}

/// Returns the name of a node by its number.
pub fn name(number: usize) -> String {
    format!("n-{number}")
}
