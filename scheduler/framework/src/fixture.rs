//! Nodes and pods for tests, from JSON.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use crate::pod_info::PodInfo;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod};
use proto::kinds::api::scheduling::v1alpha2::PodGroup;
use serde_json::{Value, json};
use std::sync::Arc;

/// Returns a node with 4 cores, 8 GiB, 110 pods and labels for zone and hostname, with `extra` merged over it.
pub fn node(name: &str, zone: &str, extra: Value) -> Arc<Node> {
    let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "zone": zone});
    let mut node = json!({
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    });
    merge(&mut node, extra);
    Arc::new(Node::decode_value(node).unwrap())
}

/// Returns a pod whose volumes have these claims.
pub fn with_claims(name: &str, claims: &[&str]) -> Value {
    let volume = |claim: &&str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    pod(name, "1", json!({"volumes": claims.iter().map(volume).collect::<Vec<_>>()}))
}

/// Returns a pod with one container that requests `cpu`, with `spec` merged over it.
pub fn pod(name: &str, cpu: &str, spec: Value) -> Value {
    let container = json!({"name": "c", "image": "nginx", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}});
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": name.split('-').next()}},
        "spec": {"containers": [container]},
    });
    merge(&mut pod["spec"], spec);
    pod
}

pub fn info(pod: Value) -> Arc<PodInfo> {
    Arc::new(PodInfo::new(Arc::new(Pod::decode_value(pod).unwrap())))
}

pub fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                match value {
                    Value::Null => drop(into.remove(&key)),
                    value => merge(into.entry(key).or_insert(Value::Null), value),
                }
            }
        }
        (into, from) => *into = from,
    }
}

/// Returns a PodGroup of the namespace `shop` whose pods are bound only if as many have nodes.
pub fn gang(name: &str, min_count: i32) -> Arc<PodGroup> {
    pod_group(name, json!({"schedulingPolicy": {"gang": {"minCount": min_count}}}))
}

pub fn pod_group(name: &str, spec: Value) -> Arc<PodGroup> {
    let metadata = json!({"name": name, "namespace": "shop", "uid": name});
    Arc::new(PodGroup::decode_value(json!({"metadata": metadata, "spec": spec})).unwrap())
}
