//! `OpportunisticBatch`, the nodes that one pod has left over for the next pod of the same signature.
//!
//! A node that has just got a pod would have to be scored again. So the rest of a ranking is used only if the next pod does
//! not fit on that node, as with pods that take a whole node.
//! Corresponds to pkg/scheduler/framework/runtime/batch.go.

use crate::sign::PodSignature;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// Longest time for which a ranking is used.
const MAX_AGE: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub struct OpportunisticBatch {
    ranking: Option<Ranking>,
    last: Option<LastCycle>,
}

/// Nodes on which a pod fits, the best one first.
#[derive(Debug)]
struct Ranking {
    signature: PodSignature,
    nodes: VecDeque<String>,
    made: Instant,
}

/// The last cycle that found a node.
#[derive(Debug)]
struct LastCycle {
    number: u64,
    node: String,
}

/// Why a ranking is not used. The texts are values of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHint {
    EmptyList,
    /// Another profile had a cycle, or the last one found no node.
    PodSkipped,
    PodIncompatible,
    Expired,
    /// The last node is gone, or the pod fits on it.
    NodeNotFull,
}

impl OpportunisticBatch {
    /// Returns the node to try first in the cycle `number`. `fits` says whether the pod fits on a node; `None` if that is
    /// gone.
    pub fn node_hint(
        &mut self,
        signature: Option<&PodSignature>,
        number: u64,
        now: Instant,
        fits: impl FnOnce(&str) -> Option<bool>,
    ) -> Result<String, NoHint> {
        let ranking = self.ranking.as_mut().filter(|ranking| !ranking.nodes.is_empty()).ok_or(NoHint::EmptyList)?;
        let last = self.last.as_ref().filter(|last| last.number + 1 == number).ok_or(NoHint::PodSkipped)?;
        if signature != Some(&ranking.signature) {
            return Err(NoHint::PodIncompatible);
        }
        if now > ranking.made + MAX_AGE {
            return Err(NoHint::Expired);
        }
        if fits(&last.node) != Some(false) {
            return Err(NoHint::NodeNotFull);
        }
        ranking.nodes.pop_front().ok_or(NoHint::EmptyList)
    }

    /// Keeps the result of the cycle `number`. `others` are the further nodes on which the pod fits, the best one first.
    pub fn store(
        &mut self,
        signature: Option<PodSignature>,
        hint: Option<&str>,
        node: &str,
        others: Vec<String>,
        number: u64,
        now: Instant,
    ) {
        self.last = Some(LastCycle { number, node: node.to_owned() });
        if hint == Some(node) {
            return; // the ranking goes on
        }
        let others = VecDeque::from(others);
        self.ranking =
            signature.filter(|_| !others.is_empty()).map(|signature| Ranking { signature, nodes: others, made: now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use crate::fixture::{info, pod};
    use serde_json::json;

    fn signature(cpu: &str) -> PodSignature {
        struct Cpu;
        impl crate::Plugin for Cpu {
            fn name(&self) -> &'static str {
                "Cpu"
            }
        }
        impl crate::Sign for Cpu {
            fn sign_pod(&self, pod: &crate::pod_info::PodInfo) -> Result<Vec<crate::sign::SignFragment>, String> {
                Ok(vec![("requests", json!(pod.spec().containers))])
            }
        }
        let profile = Profile { sign: vec![std::sync::Arc::new(Cpu)], ..Profile::default() };
        profile.sign_pod(&info(pod("p", cpu, json!({})))).unwrap()
    }

    #[test]
    fn equal_pods_take_the_rest_of_a_ranking() {
        let (mut batch, now) = (OpportunisticBatch::default(), component_base::env::Env::simulated(1).now());
        let (one, two) = (signature("1"), signature("2"));
        let full = |_: &str| Some(false);
        assert_eq!(batch.node_hint(Some(&one), 1, now, full), Err(NoHint::EmptyList));
        let others = vec!["n2".to_owned(), "n3".to_owned(), "n4".to_owned()];
        batch.store(Some(one.clone()), None, "n1", others.clone(), 1, now);
        for (signature, number, after_ms, fits, expected) in [
            (Some(&one), 3, 0, Some(false), NoHint::PodSkipped),
            (Some(&two), 2, 0, Some(false), NoHint::PodIncompatible),
            (None, 2, 0, Some(false), NoHint::PodIncompatible),
            (Some(&one), 2, 501, Some(false), NoHint::Expired),
            (Some(&one), 2, 0, Some(true), NoHint::NodeNotFull),
            (Some(&one), 2, 0, None, NoHint::NodeNotFull),
        ] {
            let hint = batch.node_hint(signature, number, now + Duration::from_millis(after_ms), |_| fits);
            assert_eq!(hint, Err(expected));
        }
        let last_node = |expected: &'static str| {
            move |node: &str| {
                assert_eq!(node, expected);
                Some(false)
            }
        };
        assert_eq!(batch.node_hint(Some(&one), 2, now, last_node("n1")).as_deref(), Ok("n2"));
        batch.store(Some(one.clone()), Some("n2"), "n2", Vec::new(), 2, now);
        assert_eq!(batch.node_hint(Some(&one), 3, now, last_node("n2")).as_deref(), Ok("n3"));
        // A hint that was not used ends the ranking.
        batch.store(Some(one.clone()), Some("n3"), "n9", Vec::new(), 3, now);
        assert_eq!(batch.node_hint(Some(&one), 4, now, full), Err(NoHint::EmptyList));
        batch.store(None, None, "n1", others, 4, now);
        assert_eq!(batch.node_hint(None, 5, now, full), Err(NoHint::EmptyList), "pods without a signature");
    }
}
