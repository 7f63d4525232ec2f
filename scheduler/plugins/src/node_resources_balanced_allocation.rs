//! NodeResourcesBalancedAllocation prefers nodes whose resources the pod makes more evenly used.
//!
//! Corresponds to pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go.

use crate::dynamic_resources::{BACKED, Backed};
use crate::resource_allocation::{CountedResources, Devices, Use};
use scheduling_framework::cache::{NodeInfo, NodeResources, NodeRow, Snapshot};
use scheduling_framework::configuration::args::NodeResourcesBalancedAllocationArgs;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{
    CycleState, FeasibleNodes, MAX_NODE_SCORE, Normalization, Plugin, PreScore, PreScoreResult, Score,
};

pub struct NodeResourcesBalancedAllocation {
    counted: CountedResources,
}

impl NodeResourcesBalancedAllocation {
    pub fn new(args: &NodeResourcesBalancedAllocationArgs) -> Self {
        Self { counted: CountedResources::new(&args.resources) }
    }

    /// Returns a score between 50 and 100; 75 if the pod does not change the balance.
    fn change(&self, pod: &PodInfo, node: NodeResources<'_>, devices: Devices<'_>) -> i64 {
        let [before, after] = self.counted.with_requests(pod, node, devices).map(|uses| balance(&uses));
        MAX_NODE_SCORE / 2 + (MAX_NODE_SCORE / 2 + after - before) / 2
    }
}

impl Plugin for NodeResourcesBalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }
}

/// Returns 100 if the same fraction of each resource is used, and 50 if one of two is full and the other is empty: 100
/// less the standard deviation of the fractions in percent.
fn balance(uses: &[Use]) -> i64 {
    let fraction = |used: &Use| (used.requested as f64 / used.allocatable as f64).min(1.0);
    let deviation = match uses {
        [] | [_] => 0.0,
        [one, other] => ((fraction(one) - fraction(other)) / 2.0).abs(),
        several => {
            let mean = several.iter().map(fraction).sum::<f64>() / several.len() as f64;
            let squares: f64 = several.iter().map(|used| (fraction(used) - mean).powi(2)).sum();
            (squares / several.len() as f64).sqrt()
        }
    };
    ((1.0 - deviation) * MAX_NODE_SCORE as f64) as i64
}

impl PreScore for NodeResourcesBalancedAllocation {
    fn pre_score(&self, _: &mut CycleState, pod: &PodInfo, _: &Snapshot, _: &FeasibleNodes<'_>) -> PreScoreResult {
        // A pod without requests does not change the balance.
        if self.counted.are_requested(&pod.requests) { PreScoreResult::Score } else { PreScoreResult::Skip }
    }
}

impl Score for NodeResourcesBalancedAllocation {
    fn score(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo, _snapshot: &Snapshot) -> i64 {
        self.change(pod, node.resources(), state.read(BACKED).map(|backed| (backed, node)))
    }

    /// Devices that stand for a resource are not a matter of the node alone.
    fn is_local(&self, state: &CycleState) -> bool {
        !self.counted.has_extended() || state.read::<Backed>(BACKED).is_none()
    }

    fn score_by_row(&self, _state: &CycleState, pod: &PodInfo, row: &NodeRow) -> Option<i64> {
        Some(self.change(pod, row.resources(), None))
    }

    fn normalization(&self) -> Normalization {
        Normalization::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_use_is_balanced() {
        let uses = |parts: &[i64]| -> Vec<Use> {
            parts.iter().map(|requested| Use { requested: *requested, allocatable: 100, weight: 1 }).collect()
        };
        for (parts, expected) in [
            (&[][..], 100),
            (&[80], 100),
            (&[50, 50], 100),
            (&[0, 100], 50),
            (&[0, 250], 50),
            (&[20, 60], 80),
            // The mean is 50, and the deviation the root of (900 + 0 + 900) / 3.
            (&[20, 50, 80], 75),
        ] {
            assert_eq!(balance(&uses(parts)), expected, "{parts:?}");
        }
    }
}
