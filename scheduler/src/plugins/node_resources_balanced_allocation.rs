//! NodeResourcesBalancedAllocation prefers nodes whose CPU and memory the pod makes more evenly used.
//!
//! Corresponds to pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go.

use crate::cache::{NodeInfo, Snapshot};
use crate::framework::{CycleState, MAX_NODE_SCORE, Plugin, PreScore, PreScoreResult, Score};
use crate::pod_info::PodInfo;
use component_helpers::scheduling::requests::Resources;

pub struct NodeResourcesBalancedAllocation;

impl Plugin for NodeResourcesBalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }
}

/// Returns 100 if the same fraction of CPU and memory is used, and 50 if one is full and the other is empty.
fn balance(used: &Resources, all: &Resources) -> i64 {
    let fraction = |used: i64, all: i64| (used as f64 / all as f64).min(1.0);
    let deviation = match (all.milli_cpu, all.memory) {
        (0, _) | (_, 0) => 0.0,
        (cpu, memory) => ((fraction(used.milli_cpu, cpu) - fraction(used.memory, memory)) / 2.0).abs(),
    };
    ((1.0 - deviation) * MAX_NODE_SCORE as f64) as i64
}

impl PreScore for NodeResourcesBalancedAllocation {
    fn pre_score(&self, _: &mut CycleState, pod: &PodInfo, _: &Snapshot, _: &[&NodeInfo]) -> PreScoreResult {
        // A pod without requests does not change the balance.
        let asks = pod.requests.milli_cpu > 0 || pod.requests.memory > 0;
        if asks { PreScoreResult::Score } else { PreScoreResult::Skip }
    }
}

impl Score for NodeResourcesBalancedAllocation {
    /// Returns a score between 50 and 100; 75 if the pod does not change the balance.
    fn score(&self, _state: &CycleState, pod: &PodInfo, node: &NodeInfo, _snapshot: &Snapshot) -> i64 {
        let with = Resources {
            milli_cpu: node.requested.milli_cpu + pod.requests.milli_cpu,
            memory: node.requested.memory + pod.requests.memory,
            ..Resources::default()
        };
        let (after, before) = (balance(&with, &node.allocatable), balance(&node.requested, &node.allocatable));
        MAX_NODE_SCORE / 2 + (MAX_NODE_SCORE / 2 + after - before) / 2
    }
}
