//! Judges decisions by the reference evaluator, after a run: it repeats the steps of the run in a cluster of its own. So it neither
//! takes the processor's caches from the measured cycles nor adds to their memory.

use crate::cluster::{all_decoded, decoded};
use crate::objects::StoredObjects;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod};
use scheduler_reference::{Cluster, Decision, Devices, Named, Settings, Storage};
use serde_json::Value;
use std::sync::Arc;

/// One step of a run.
pub enum Step {
    /// A pod with this uid was evicted.
    Evicted(String),
    Decided {
        /// The number of the pod.
        number: usize,
        node: Option<String>,
        /// Numbers of the nodes on which the cycle found that the pod fits; `None` if nobody judges the decision.
        feasible: Option<Vec<usize>>,
    },
}

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
            slices: all_decoded(&stored.slices).into_iter().collect(),
        });
        nodes.for_each(|node| checker.cluster.set_node(Arc::new(decoded::<Node>(node))));
        checker
    }

    /// Puts a pod on a node before the run.
    pub fn place(&mut self, pod: Value, node: &str) {
        self.cluster.place(Arc::new(decoded(pod)), node);
    }

    /// Returns true if the pod may run on each node that the cycle found feasible, and none of them has more points than the
    /// chosen one. Without a node, returns true if no node takes the pod.
    fn agrees(&self, pod: &Pod, node: Option<&str>, feasible: Vec<String>) -> bool {
        let Some(node) = node else {
            let verdicts = self.cluster.evaluate(pod, &self.settings).verdicts;
            return verdicts.values().all(Option::is_some);
        };
        // The cycle has searched some of the nodes, and has added up the scores without recording them.
        let decision = Decision { node: node.to_owned(), feasible, is_complete: false, scores: None };
        let wrong = self.cluster.check(pod, &self.settings, &decision);
        wrong.iter().take(3).for_each(|why| eprintln!("bench-cycles: {}: {why}", pod.key()));
        wrong.is_empty()
    }

    /// Repeats a run. Returns the number of decisions that it has judged, and of those with which it does not agree.
    pub fn judge(
        mut self,
        steps: Vec<Step>,
        pod: impl Fn(usize) -> Value,
        name: impl Fn(usize) -> String,
    ) -> (usize, usize) {
        let (mut judged, mut wrong) = (0, 0);
        for step in steps {
            match step {
                Step::Evicted(uid) => self.cluster.remove(&uid),
                Step::Decided { number, node, feasible } => {
                    let pod = Arc::new(decoded::<Pod>(pod(number)));
                    if let Some(feasible) = feasible {
                        let feasible = feasible.into_iter().map(&name).collect();
                        judged += 1;
                        wrong += usize::from(!self.agrees(&pod, node.as_deref(), feasible));
                    }
                    if let Some(node) = node {
                        self.cluster.place(pod, &node);
                    }
                }
            }
        }
        (judged, wrong)
    }
}
