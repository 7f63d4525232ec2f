//! Judges decisions by the reference evaluator.

use crate::cluster::{Placement, all_decoded, decoded};
use crate::objects::StoredObjects;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod};
use scheduler_reference::{Cluster, Decision, Devices, Named, Settings, Storage};
use serde_json::Value;
use std::sync::Arc;

/// The same objects as the benchmark's cluster, for the reference evaluator.
#[derive(Default)]
pub struct Checker {
    cluster: Cluster,
    settings: Settings,
}

fn named<T: Kind>(objects: &[Value]) -> Named<T> {
    all_decoded(objects).into_iter().collect()
}

impl Checker {
    /// Devices are judged as if no other claim had any, because the reference does not learn which ones the scheduler chooses.
    pub fn new(nodes: impl Iterator<Item = Value>, stored: &StoredObjects) -> Self {
        let mut checker = Self::default();
        checker.cluster.storage = Arc::new(Storage {
            claims: named(&stored.claims),
            volumes: named(&stored.volumes),
            csi_nodes: named(&stored.csi_nodes),
            ..Storage::default()
        });
        checker.cluster.devices = Arc::new(Devices {
            claims: named(&stored.device_claims),
            classes: named(&stored.device_classes),
            slices: all_decoded(&stored.slices).into_iter().map(Arc::new).collect(),
        });
        nodes.for_each(|node| checker.cluster.set_node(Arc::new(decoded::<Node>(node))));
        checker
    }

    pub fn place(&mut self, pod: Arc<Pod>, node: &str) {
        self.cluster.place(pod, node);
    }

    pub fn remove(&mut self, uid: &str) {
        self.cluster.remove(uid);
    }

    /// Returns true if the pod may run on each of the feasible nodes, and no feasible node has more points than the chosen
    /// one. Without a node, returns true if no node takes the pod.
    pub fn agrees(&self, pod: &Pod, placement: Option<&Placement>) -> bool {
        let Some(Placement { node, feasible }) = placement else {
            let verdicts = self.cluster.evaluate(pod, &self.settings).verdicts;
            return verdicts.values().all(Option::is_some);
        };
        // The cycle has searched some of the nodes, and has added up the scores without recording them.
        let decision = Decision { node: node.clone(), feasible: feasible.clone(), is_complete: false, scores: None };
        let wrong = self.cluster.check(pod, &self.settings, &decision);
        wrong.iter().take(3).for_each(|why| eprintln!("bench-cycles: {}: {why}", pod.key()));
        wrong.is_empty()
    }
}
