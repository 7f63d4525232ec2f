//! NodeAffinity filters nodes by `nodeSelector` and required node affinity, and scores them by preferred node affinity.
//!
//! Corresponds to pkg/scheduler/framework/plugins/nodeaffinity.

use component_helpers::scheduling::node_selector;
use proto::kinds::api::core::v1::{Node, NodeSelector, PreferredSchedulingTerm};
use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::configuration::args::NodeAffinityArgs;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::profile::normalize_to_highest;
use scheduling_framework::{
    ClusterEvent, CycleState, FeasibleNodes, Filter, Normalization, Plugin, PreFilter, PreFilterResult, PreScore,
    PreScoreResult, Rejection, Score,
};
use std::sync::Arc;

pub struct NodeAffinity {
    /// Affinity that the profile adds to that of each pod.
    added_required: Option<NodeSelector>,
    added_preferred: Vec<PreferredSchedulingTerm>,
}

const NAME: &str = "NodeAffinity";
const MISMATCH: &str = "node(s) didn't match Pod's node affinity/selector";
const ENFORCED_MISMATCH: &str = "node(s) didn't match scheduler-enforced node affinity";

impl NodeAffinity {
    pub fn new(args: NodeAffinityArgs) -> Self {
        let added = args.added_affinity.unwrap_or_default();
        Self {
            added_required: added.required_during_scheduling_ignored_during_execution,
            added_preferred: added.preferred_during_scheduling_ignored_during_execution.unwrap_or_default(),
        }
    }

    fn matches_added(&self, node: &Node) -> bool {
        self.added_required.as_ref().is_none_or(|added| node_selector::selector_matches(added, node))
    }
}

/// Returns true if the pod may run on some nodes only.
pub fn selects_nodes(pod: &PodInfo) -> bool {
    let selects = pod.spec().node_selector.as_ref().is_some_and(|selector| !selector.is_empty());
    selects || node_selector::required_affinity(pod.spec()).is_some()
}

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
        let matches = |node: &Arc<Node>| self.matches_added(node) && node_selector::required_matches(pod.spec(), node);
        event.node_change().is_some_and(|(old, new)| matches(new) && !old.is_some_and(matches))
    }
}

impl PreFilter for NodeAffinity {
    fn pre_filter(&self, _: &mut CycleState, pod: &PodInfo, _: &Snapshot) -> Result<PreFilterResult, Rejection> {
        if !selects_nodes(pod) && self.added_required.is_none() {
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
        if !node.node.as_ref().is_some_and(|node| self.matches_added(node)) {
            return Err(Rejection::unresolvable(NAME, ENFORCED_MISMATCH));
        }
        let matches = node.node.as_ref().is_some_and(|node| node_selector::required_matches(pod.spec(), node));
        if matches { Ok(()) } else { Err(Rejection::unresolvable(NAME, MISMATCH)) }
    }

    fn is_local(&self, _state: &CycleState) -> bool {
        true
    }

    fn reads_pods(&self) -> bool {
        false
    }
}

impl PreScore for NodeAffinity {
    fn pre_score(&self, _: &mut CycleState, pod: &PodInfo, _: &Snapshot, _: &FeasibleNodes<'_>) -> PreScoreResult {
        let prefers = !self.added_preferred.is_empty() || !preferred(pod).is_empty();
        if prefers { PreScoreResult::Score } else { PreScoreResult::Skip }
    }
}

impl Score for NodeAffinity {
    fn score(&self, _state: &CycleState, pod: &PodInfo, node: &NodeInfo, _snapshot: &Snapshot) -> i64 {
        let Some(node) = &node.node else { return 0 };
        let terms = self.added_preferred.iter().chain(preferred(pod));
        let matching = terms.filter(|term| node_selector::term_matches(&term.preference, node));
        matching.map(|term| i64::from(term.weight)).sum()
    }

    fn is_local(&self, _state: &CycleState) -> bool {
        true
    }

    fn normalization(&self) -> Normalization {
        Normalization::ToHighest
    }

    fn normalize(&self, _: &CycleState, _: &PodInfo, _: &FeasibleNodes<'_>, scores: &mut [i64]) {
        normalize_to_highest(scores, false);
    }
}
