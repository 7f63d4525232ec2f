//! `PolicySource`: the cached objects that authorizers read, and the RBAC index compiled from them.
//!
//! The index is rebuilt when one of its rows has changed, and only then. Corresponds to the informers behind
//! kube-apiserver's authorizers.

use super::node::NodeRelations;
use super::rbac::{Policy, RbacIndex};
use crate::cacher::{Cacher, Snapshot};
use arc_swap::ArcSwap;
use proto::Object;
use serde_json::Value;
use std::sync::Arc;

/// The rows that make a policy, in the order of `Policy`'s fields.
pub struct PolicyRows {
    pub cluster_roles: Cacher,
    pub roles: Cacher,
    pub cluster_role_bindings: Cacher,
    pub role_bindings: Cacher,
    pub pods: Cacher,
    pub persistent_volumes: Cacher,
    pub volume_attachments: Cacher,
}

pub struct PolicySource {
    rows: PolicyRows,
    compiled: ArcSwap<Compiled>,
}

/// An index and the states of the rows that it was made of.
#[derive(Default)]
struct Compiled {
    of: [Option<Snapshot>; 4],
    index: Arc<RbacIndex>,
}

impl PolicySource {
    pub fn new(rows: PolicyRows) -> Self {
        Self { rows, compiled: ArcSwap::default() }
    }

    fn snapshots(&self) -> [Option<Snapshot>; 4] {
        let PolicyRows { cluster_roles, roles, cluster_role_bindings, role_bindings, .. } = &self.rows;
        [cluster_roles, roles, cluster_role_bindings, role_bindings].map(|row| row.snapshot().ok())
    }

    /// The objects as they are now.
    pub fn policy(&self) -> Policy {
        policy_of(&self.snapshots())
    }

    /// The index of the objects as they are now.
    pub fn index(&self) -> Arc<RbacIndex> {
        let snapshots = self.snapshots();
        let compiled = self.compiled.load();
        let is_same = snapshots.iter().zip(&compiled.of).all(|pair| match pair {
            (Some(now), Some(then)) => now.is_same(then),
            (now, then) => now.is_none() && then.is_none(),
        });
        if is_same {
            return compiled.index.clone();
        }
        let index = Arc::new(RbacIndex::of(&policy_of(&snapshots)));
        self.compiled.store(Arc::new(Compiled { of: snapshots, index: index.clone() }));
        index
    }
}

fn policy_of(snapshots: &[Option<Snapshot>; 4]) -> Policy {
    let values = |at: usize| {
        snapshots[at].as_ref().map(|s| s.iter().map(|(_, object)| object.value()).collect()).unwrap_or_default()
    };
    Policy { cluster_roles: values(0), roles: values(1), cluster_role_bindings: values(2), role_bindings: values(3) }
}

impl NodeRelations for PolicySource {
    fn any_pod(&self, node: &str, namespace: &str, visit: &mut dyn FnMut(&Value) -> bool) -> bool {
        let Ok(pods) = self.rows.pods.snapshot() else { return false };
        let of_node = |object: &&Arc<Object>| object.index.fields.get("spec.nodeName").is_some_and(|n| n == node);
        pods.in_namespace(namespace).map(|(_, pod)| pod).filter(of_node).any(|pod| visit(&pod.peek()))
    }

    fn claims_of_volume(&self, volume: &str) -> Vec<(String, String)> {
        let Ok(volumes) = self.rows.persistent_volumes.snapshot() else { return Vec::new() };
        let Some(volume) = volumes.get("", volume) else { return Vec::new() };
        let value = volume.peek();
        let text = |key: &str| value.pointer(&format!("/spec/claimRef/{key}")).and_then(Value::as_str);
        match (text("namespace"), text("name")) {
            (Some(namespace), Some(name)) => vec![(namespace.to_owned(), name.to_owned())],
            _ => Vec::new(),
        }
    }

    fn is_attached(&self, attachment: &str, node: &str) -> bool {
        let Ok(attachments) = self.rows.volume_attachments.snapshot() else { return false };
        attachments.get("", attachment).is_some_and(|a| a.peek()["spec"]["nodeName"] == node)
    }
}
