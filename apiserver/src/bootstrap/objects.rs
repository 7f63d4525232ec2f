//! The namespaces and priority classes that every cluster has.
//!
//! Corresponds to pkg/controlplane/controller/systemnamespaces and pkg/registry/scheduling/rest.

use serde_json::{Value, json};

/// Looked after as long as the server runs.
pub const NAMESPACES: &[&str] = &["kube-system", "kube-public", "kube-node-lease", "default"];

pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Since when the use of tokens in secrets is written down: before that day nobody can say that one is not needed.
///
/// Corresponds to pkg/controlplane/controller/legacytokentracking.
pub fn token_tracking(today: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kube-apiserver-legacy-service-account-token-tracking", "namespace": "kube-system"},
        "data": {"since": today},
    })
}

/// Name, value, description.
const PRIORITY_CLASSES: &[(&str, i64, &str)] = &[
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

pub fn priority_classes() -> impl Iterator<Item = Value> {
    PRIORITY_CLASSES.iter().map(|(name, value, description)| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "description": description,
            "globalDefault": false,
        })
    })
}
