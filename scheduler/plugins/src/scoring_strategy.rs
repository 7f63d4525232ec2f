//! `Strategy`, how the use of a node's resources becomes the score of NodeResourcesFit.
//!
//! Corresponds to least_allocated.go, most_allocated.go and requested_to_capacity_ratio.go of
//! pkg/scheduler/framework/plugins/noderesources.

use crate::resource_allocation::Use;
use scheduling_framework::MAX_NODE_SCORE;
use scheduling_framework::configuration::args::function_shape::{FunctionShape, MAX_CUSTOM_SCORE, MAX_UTILIZATION};
use scheduling_framework::configuration::args::node_resources::{
    MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO, ScoringStrategy,
};

#[derive(Clone, Debug, PartialEq)]
pub enum Strategy {
    /// Prefers nodes with much free.
    LeastAllocated,
    /// Prefers nodes that are almost full.
    MostAllocated,
    /// Prefers nodes whose use has a high value of a function.
    RequestedToCapacityRatio(FunctionShape),
}

impl Strategy {
    pub fn new(strategy: &ScoringStrategy) -> Self {
        match strategy.kind.as_str() {
            MOST_ALLOCATED => Self::MostAllocated,
            REQUESTED_TO_CAPACITY_RATIO => {
                let ratio = strategy.requested_to_capacity_ratio.clone().unwrap_or_default();
                Self::RequestedToCapacityRatio(ratio.shape)
            }
            _ => Self::LeastAllocated,
        }
    }

    /// Returns the weighted mean of the scores of all resources; 0 without any.
    pub fn score(&self, uses: &[Use]) -> i64 {
        let (mut sum, mut weights) = (0, 0);
        for used in uses {
            let score = self.score_one(used);
            // A resource at the bottom of the function does not count at all.
            if score > 0 || !matches!(self, Self::RequestedToCapacityRatio(_)) {
                sum += score * used.weight;
                weights += used.weight;
            }
        }
        match self {
            _ if weights == 0 => 0,
            Self::RequestedToCapacityRatio(_) => (sum as f64 / weights as f64).round() as i64,
            _ => sum / weights,
        }
    }

    fn score_one(&self, used: &Use) -> i64 {
        let percentage = |part: i64| match part.checked_mul(MAX_NODE_SCORE) {
            Some(hundredfold) => hundredfold / used.allocatable,
            None => (i128::from(part) * i128::from(MAX_NODE_SCORE) / i128::from(used.allocatable)) as i64,
        };
        let is_over = used.requested > used.allocatable;
        match self {
            Self::LeastAllocated if is_over => 0,
            Self::LeastAllocated => percentage(used.allocatable - used.requested),
            Self::MostAllocated => percentage(used.requested.min(used.allocatable)),
            Self::RequestedToCapacityRatio(shape) => {
                let utilization = if is_over { MAX_UTILIZATION } else { percentage(used.requested) };
                shape.at(utilization, MAX_NODE_SCORE / MAX_CUSTOM_SCORE)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn score(strategy: Value, uses: &[(i64, i64, i64)]) -> i64 {
        let uses: Vec<Use> = uses
            .iter()
            .map(|(requested, allocatable, weight)| Use {
                requested: *requested,
                allocatable: *allocatable,
                weight: *weight,
            })
            .collect();
        Strategy::new(&serde_json::from_value(strategy).unwrap()).score(&uses)
    }

    /// Half of the CPU and three quarters of the memory are used.
    #[test]
    fn scores_follow_from_the_formulas() {
        let uses = [(2, 4, 1), (6, 8, 1)];
        assert_eq!(score(json!({"type": "LeastAllocated"}), &uses), (50 + 25) / 2);
        assert_eq!(score(json!({"type": "MostAllocated"}), &uses), (50 + 75) / 2);
        assert_eq!(score(json!({"type": "MostAllocated"}), &[(2, 4, 1), (6, 8, 3)]), (50 + 3 * 75) / 4);
        // More is used than there is, because containers without requests count too.
        assert_eq!(score(json!({"type": "LeastAllocated"}), &[(5, 4, 1)]), 0);
        assert_eq!(score(json!({"type": "MostAllocated"}), &[(5, 4, 1)]), 100);
        assert_eq!(score(json!({"type": "MostAllocated"}), &[]), 0);
    }

    #[test]
    fn amounts_may_be_as_large_as_a_quantity() {
        let most = i64::MAX;
        assert_eq!(score(json!({"type": "MostAllocated"}), &[(most / 4, most / 2, 1)]), 49);
        assert_eq!(score(json!({"type": "LeastAllocated"}), &[(most / 4, most, 1)]), 75);
    }

    #[test]
    fn a_ratio_has_the_value_of_its_function() {
        let bin_packing =
            |points: Value| json!({"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": points}});
        let full = bin_packing(json!([{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]));
        assert_eq!(score(full.clone(), &[(2, 4, 1), (6, 8, 1)]), 63, "62.5 is rounded");
        assert_eq!(score(full.clone(), &[(2, 4, 1), (6, 8, 3)]), 69, "(50 + 225) / 4");
        assert_eq!(score(full.clone(), &[(0, 4, 1), (6, 8, 1)]), 75, "a score of zero does not count");
        assert_eq!(score(full, &[(9, 4, 1)]), 100);
        let spread = bin_packing(json!([{"utilization": 0, "score": 10}, {"utilization": 50, "score": 0}]));
        assert_eq!(score(spread.clone(), &[(1, 4, 1)]), 50);
        assert_eq!(score(spread, &[(3, 4, 1)]), 0);
    }
}
