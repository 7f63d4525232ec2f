//! NodeAffinity filters nodes by `nodeSelector` and required node affinity, and scores them by preferred node affinity.
//!
//! Corresponds to pkg/scheduler/framework/plugins/nodeaffinity.

use crate::cache::{NodeInfo, Snapshot};
use crate::framework::profile::normalize_to_highest;
use crate::framework::{
    ClusterEvent, CycleState, Filter, Plugin, PreFilter, PreFilterResult, PreScore, PreScoreResult, Rejection, Score,
};
use crate::pod_info::PodInfo;
use component_helpers::scheduling::node_selector;
use proto::kinds::api::core::v1::{Node, PreferredSchedulingTerm};
use std::sync::Arc;

pub struct NodeAffinity;

const NAME: &str = "NodeAffinity";
const MISMATCH: &str = "node(s) didn't match Pod's node affinity/selector";

fn preferred(pod: &PodInfo) -> &[PreferredSchedulingTerm] {
    let affinity = pod.spec().affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
    affinity.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_deref()).unwrap_or_default()
}

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Returns true if a node matches now and did not match before.
    fn may_become_schedulable(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        let matches = |node: &Arc<Node>| node_selector::required_matches(pod.spec(), node);
        event.node_change().is_some_and(|(old, new)| matches(new) && !old.is_some_and(matches))
    }
}

impl PreFilter for NodeAffinity {
    fn pre_filter(&self, _: &mut CycleState, pod: &PodInfo, _: &Snapshot) -> Result<PreFilterResult, Rejection> {
        let selects = pod.spec().node_selector.as_ref().is_some_and(|selector| !selector.is_empty());
        if !selects && node_selector::required_affinity(pod.spec()).is_none() {
            return Ok(PreFilterResult::Skip);
        }
        match node_selector::named_nodes(pod.spec()) {
            None => Ok(PreFilterResult::AllNodes),
            Some(names) if names.is_empty() => Err(Rejection::unresolvable(NAME, "pod affinity terms conflict")),
            Some(names) => Ok(PreFilterResult::Nodes(names)),
        }
    }
}

impl Filter for NodeAffinity {
    fn filter(&self, _state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        let matches = node.node.as_ref().is_some_and(|node| node_selector::required_matches(pod.spec(), node));
        if matches { Ok(()) } else { Err(Rejection::unresolvable(NAME, MISMATCH)) }
    }
}

impl PreScore for NodeAffinity {
    fn pre_score(&self, _: &mut CycleState, pod: &PodInfo, _: &Snapshot, _: &[&NodeInfo]) -> PreScoreResult {
        if preferred(pod).is_empty() { PreScoreResult::Skip } else { PreScoreResult::Score }
    }
}

impl Score for NodeAffinity {
    fn score(&self, _state: &CycleState, pod: &PodInfo, node: &NodeInfo, _snapshot: &Snapshot) -> i64 {
        let Some(node) = &node.node else { return 0 };
        let matching = preferred(pod).iter().filter(|term| node_selector::term_matches(&term.preference, node));
        matching.map(|term| i64::from(term.weight)).sum()
    }

    fn normalize(&self, _: &CycleState, _: &PodInfo, _: &[&NodeInfo], scores: &mut [i64]) {
        normalize_to_highest(scores, false);
    }
}
