//! Two policies: FewestPods prefers nodes with few pods, and Quiet keeps pods away from nodes that ask for quiet.
//!
//! A file of the scheduler enables them: `multiPoint: {enabled: [{name: FewestPods, weight: 5}, {name: Quiet}]}`.
//! Corresponds to the out-of-tree plugins of k8s.io/scheduler-plugins.

use scheduler::framework::cache::{NodeInfo, Snapshot};
use scheduler::framework::pod_info::PodInfo;
use scheduler::framework::{
    ClusterEvent, CycleState, FeasibleNodes, Filter, MAX_NODE_SCORE, Plugin, Points, Registry, Rejection, Score,
};
use std::sync::Arc;

/// Adds both plugins to those that a configuration may name.
pub fn register(registry: &mut Registry) {
    registry.add("FewestPods", |_args| {
        let plugin = Arc::new(FewestPods);
        Ok(Points::of(&plugin).score(&plugin))
    });
    registry.add("Quiet", |_args| {
        let plugin = Arc::new(Quiet);
        Ok(Points::of(&plugin).filter(&plugin))
    });
}

/// Prefers nodes with few pods, whatever they request.
pub struct FewestPods;

impl Plugin for FewestPods {
    fn name(&self) -> &'static str {
        "FewestPods"
    }
}

impl Score for FewestPods {
    fn score(&self, _: &CycleState, _: &PodInfo, node: &NodeInfo, _: &Snapshot) -> i64 {
        -i64::try_from(node.pods.len()).unwrap_or(i64::MAX)
    }

    /// Scales the range of scores to 0 … 100. The node with the fewest pods has 100.
    fn normalize(&self, _: &CycleState, _: &PodInfo, _: &FeasibleNodes<'_>, scores: &mut [i64]) {
        let least = scores.iter().copied().min().unwrap_or(0);
        let most = scores.iter().copied().max().unwrap_or(0);
        for score in scores {
            *score = if most == least { MAX_NODE_SCORE } else { MAX_NODE_SCORE * (*score - least) / (most - least) };
        }
    }
}

/// Rejects nodes with the label `quiet` for pods without it.
pub struct Quiet;

impl Plugin for Quiet {
    fn name(&self) -> &'static str {
        "Quiet"
    }

    /// Returns true if a node was added or changed. Its label may have gone.
    fn may_become_schedulable(&self, _: &PodInfo, event: &ClusterEvent) -> bool {
        event.node_change().is_some()
    }
}

impl Filter for Quiet {
    fn filter(&self, _: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        let is_loud = !pod.labels().contains_key("quiet");
        match node.label("quiet") {
            Some(_) if is_loud => Err(Rejection::unresolvable("Quiet", "node(s) want quiet pods")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
