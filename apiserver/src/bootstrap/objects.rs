//! The namespaces, priority classes and the token tracking ConfigMap that every cluster has.
//!
//! Corresponds to pkg/controlplane/controller/systemnamespaces and pkg/registry/scheduling/rest.

use serde_json::{Value, json};

/// Namespaces that are created again whenever they are missing.
pub const NAMESPACES: &[&str] = &["kube-system", "kube-public", "kube-node-lease", "default"];

pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Makes the ConfigMap with the day since which uses of legacy tokens are recorded. A token that has no record may have
/// been used before that day.
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

/// Priority classes: name, value, description.
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
