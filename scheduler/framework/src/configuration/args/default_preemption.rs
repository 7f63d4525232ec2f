//! `DefaultPreemptionArgs`: how many nodes preemption looks at.
//!
//! Corresponds to DefaultPreemptionArgs of k8s.io/kube-scheduler/config/v1.

use super::Args;
use proto::meta::status::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DefaultPreemptionArgs {
    /// Percentage of the nodes after which the search for candidates ends.
    pub min_candidate_nodes_percentage: i32,
    /// Number of candidates after which the search ends, if that is more.
    pub min_candidate_nodes_absolute: i32,
}

impl Default for DefaultPreemptionArgs {
    fn default() -> Self {
        Self { min_candidate_nodes_percentage: 10, min_candidate_nodes_absolute: 100 }
    }
}

impl Args for DefaultPreemptionArgs {
    fn validate(&self, path: &str, errors: &mut Vec<FieldError>) {
        let Self { min_candidate_nodes_percentage: percentage, min_candidate_nodes_absolute: absolute } = *self;
        let percentage_path = format!("{path}.minCandidateNodesPercentage");
        let absolute_path = format!("{path}.minCandidateNodesAbsolute");
        if !(0..=100).contains(&percentage) {
            errors.push(FieldError::invalid(&percentage_path, &json!(percentage), "not in valid range [0, 100]"));
        }
        if absolute < 0 {
            errors.push(FieldError::invalid(&absolute_path, &json!(absolute), "not in valid range [0, inf)"));
        }
        if (percentage, absolute) == (0, 0) {
            let other = |name: &str| format!("cannot be zero at the same time as {name}");
            errors.push(FieldError::invalid(percentage_path, &json!(0), other("minCandidateNodesAbsolute")));
            errors.push(FieldError::invalid(absolute_path, &json!(0), other("minCandidateNodesPercentage")));
        }
    }
}
