//! NodeResourcesFit rejects nodes without enough free resources, and prefers those with the most free ones.
//!
//! Corresponds to pkg/scheduler/framework/plugins/noderesources/fit.go and least_allocated.go.

use crate::cache::{NodeInfo, Snapshot};
use crate::framework::{
    ClusterEvent, CycleState, Filter, MAX_NODE_SCORE, Plugin, PreFilter, PreFilterResult, Rejection, Score, event,
};
use crate::pod_info::PodInfo;
use component_helpers::scheduling::requests::Resources;
use std::borrow::Cow;

pub struct NodeResourcesFit;

const NAME: &str = "NodeResourcesFit";

/// Returns the reasons for which the pod does not fit, each with true if it would not fit on the empty node either.
fn insufficient(requests: &Resources, node: &NodeInfo) -> Vec<(Cow<'static, str>, bool)> {
    let mut missing: Vec<(Cow<'static, str>, bool)> = Vec::new();
    let (all, used) = (&node.allocatable, &node.requested);
    if used.pods + 1 > all.pods {
        missing.push(("Too many pods".into(), false));
    }
    let mut check = |reason: Cow<'static, str>, wanted: i64, all: i64, used: i64| {
        if wanted > 0 && wanted > all - used {
            missing.push((reason, wanted > all));
        }
    };
    check("Insufficient cpu".into(), requests.milli_cpu, all.milli_cpu, used.milli_cpu);
    check("Insufficient memory".into(), requests.memory, all.memory, used.memory);
    let storage = (requests.ephemeral_storage, all.ephemeral_storage, used.ephemeral_storage);
    check("Insufficient ephemeral-storage".into(), storage.0, storage.1, storage.2);
    for (name, wanted) in &requests.scalar {
        check(format!("Insufficient {name}").into(), *wanted, all.get(name), used.get(name));
    }
    missing
}

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn may_become_schedulable(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        let asks_for_more = |more: &Resources, less: &Resources| {
            pod.requests.requested().any(|(name, _)| more.get(name) > less.get(name))
        };
        match event {
            ClusterEvent::AssignedPodDeleted(_) => true, // every pod counts against the node's limit of pods
            ClusterEvent::AssignedPodUpdated { old, new } => asks_for_more(&old.requests, &new.requests),
            ClusterEvent::PodUpdated { old, new } => old.requests.exceeds(&new.requests),
            ClusterEvent::NodeAdded(node) => insufficient(&pod.requests, &event::empty_node_info(node)).is_empty(),
            ClusterEvent::NodeUpdated { old, new } => {
                let (old, new) = (event::empty_node_info(old), event::empty_node_info(new));
                let grown =
                    new.allocatable.pods > old.allocatable.pods || asks_for_more(&new.allocatable, &old.allocatable);
                grown && insufficient(&pod.requests, &new).is_empty()
            }
            _ => false,
        }
    }
}

impl PreFilter for NodeResourcesFit {
    fn pre_filter(&self, _: &mut CycleState, _: &PodInfo, _: &Snapshot) -> Result<PreFilterResult, Rejection> {
        Ok(PreFilterResult::AllNodes)
    }
}

impl Filter for NodeResourcesFit {
    fn filter(&self, _state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        let missing = insufficient(&pod.requests, node);
        if missing.is_empty() {
            return Ok(());
        }
        let resolvable = !missing.iter().any(|(_, never)| *never);
        Err(Rejection { plugin: NAME, resolvable, reasons: missing.into_iter().map(|(reason, _)| reason).collect() })
    }
}

impl Score for NodeResourcesFit {
    /// Returns the mean of the free percentages of CPU and memory: LeastAllocated with weights of 1.
    fn score(&self, _state: &CycleState, pod: &PodInfo, node: &NodeInfo, _snapshot: &Snapshot) -> i64 {
        let (all, used, pod) = (&node.allocatable, &node.non_zero_requested, &pod.non_zero_requests);
        let parts = [(all.milli_cpu, used.milli_cpu + pod.milli_cpu), (all.memory, used.memory + pod.memory)];
        let counted: Vec<i64> = parts.iter().filter(|(all, _)| *all > 0).map(|(all, used)| free(*all, *used)).collect();
        if counted.is_empty() { 0 } else { counted.iter().sum::<i64>() / counted.len() as i64 }
    }
}

fn free(all: i64, used: i64) -> i64 {
    if used > all { 0 } else { (i128::from(all - used) * i128::from(MAX_NODE_SCORE) / i128::from(all)) as i64 }
}
