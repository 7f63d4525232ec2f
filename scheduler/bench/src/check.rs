//! Judges decisions by the reference evaluator.

use crate::cluster::{all_decoded, decoded};
use crate::objects::StoredObjects;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod};
use scheduler_reference::{Cluster, Decision, Devices, Settings, Storage};
use serde_json::Value;
use std::sync::Arc;

/// The same objects as the benchmark's cluster, for the reference evaluator.
#[derive(Default)]
pub struct Checker {
    cluster: Cluster,
    settings: Settings,
}

fn shared<T: Kind>(objects: &[Value]) -> Vec<Arc<T>> {
    all_decoded(objects).into_iter().map(Arc::new).collect()
}

impl Checker {
    /// Devices are judged as if no other claim had any, because the reference does not learn which ones the scheduler chooses.
    pub fn new(nodes: impl Iterator<Item = Value>, stored: &StoredObjects) -> Self {
        let mut checker = Self::default();
        checker.cluster.storage = Arc::new(Storage {
            claims: shared(&stored.claims),
            volumes: shared(&stored.volumes),
            csi_nodes: shared(&stored.csi_nodes),
            ..Storage::default()
        });
        checker.cluster.devices = Arc::new(Devices {
            claims: shared(&stored.device_claims),
            classes: shared(&stored.device_classes),
            slices: shared(&stored.slices),
        });
        nodes.for_each(|node| checker.cluster.set_node(Arc::new(decoded::<Node>(node))));
        checker
    }

    pub fn place(&mut self, pod: Value, node: &str) {
        self.cluster.place(Arc::new(decoded::<Pod>(pod)), node);
    }

    pub fn remove(&mut self, uid: &str) {
        self.cluster.remove(uid);
    }

    /// Returns true if the pod may run on the node, and without a node, if no node takes it.
    pub fn agrees(&self, pod: &Value, node: Option<&str>) -> bool {
        let pod = decoded::<Pod>(pod.clone());
        let Some(node) = node else {
            return self.cluster.evaluate(&pod, &self.settings).verdicts.values().all(Option::is_some);
        };
        // The scores of the other feasible nodes are not judged.
        let decision = Decision { node: node.to_owned(), feasible: vec![node.to_owned()], ..Decision::default() };
        self.cluster.check(&pod, &self.settings, &decision).is_empty()
    }
}
