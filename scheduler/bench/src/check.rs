//! Judges decisions by the reference evaluator.

use crate::cluster::decoded;
use proto::kinds::api::core::v1::{Node, Pod};
use scheduler_reference::{Cluster, Decision, Settings};
use serde_json::Value;
use std::sync::Arc;

/// The same objects as the benchmark's cluster, for the reference evaluator.
#[derive(Default)]
pub struct Checker {
    cluster: Cluster,
    settings: Settings,
}

impl Checker {
    pub fn new(nodes: impl Iterator<Item = Value>) -> Self {
        let mut checker = Self::default();
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
