//! `Stored`: the fields of a stored pod or node that a trial reads. All others are skipped, which takes a tenth of the time
//! that reading them would. Pure.

use proto::meta::node_taints;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Stored {
    pub metadata: Metadata,
    pub spec: Spec,
    pub status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    pub namespace: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    pub node_name: Option<String>,
    /// Taints of a node.
    taints: Vec<Taint>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Taint {
    key: String,
}

/// Taints of nodes that pods may not use yet. Controllers take them away.
const OF_NEW_NODES: [&str; 3] =
    [node_taints::NOT_READY, node_taints::UNREACHABLE, "node.cloudprovider.kubernetes.io/uninitialized"];

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Status {
    pub phase: String,
    conditions: Vec<Condition>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Condition {
    r#type: String,
    status: String,
    pub reason: String,
    pub message: String,
}

impl Stored {
    pub fn read(document: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(document)
    }

    /// Returns the condition of a type, if it has this status.
    pub fn condition(&self, of_type: &str, status: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.r#type == of_type && condition.status == status)
    }

    /// Returns true for a node that is ready.
    pub fn is_ready(&self) -> bool {
        self.condition("Ready", "True").is_some()
    }

    /// Returns true for a node that pods may not use yet. Taints of its own do not count.
    pub fn is_held_back(&self) -> bool {
        self.spec.taints.iter().any(|taint| OF_NEW_NODES.contains(&taint.key.as_str()))
    }
}
