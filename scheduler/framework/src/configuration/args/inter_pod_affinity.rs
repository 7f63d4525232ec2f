//! `InterPodAffinityArgs`: how the affinity of existing pods counts for another pod's score.
//!
//! Corresponds to InterPodAffinityArgs of k8s.io/kube-scheduler/config/v1.

use super::Args;
use proto::meta::status::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct InterPodAffinityArgs {
    /// Weight of an existing pod's required affinity when another pod is scored.
    pub hard_pod_affinity_weight: i32,
    /// True if preferences of existing pods do not count for a pod that has none.
    pub ignore_preferred_terms_of_existing_pods: bool,
}

impl Default for InterPodAffinityArgs {
    fn default() -> Self {
        Self { hard_pod_affinity_weight: 1, ignore_preferred_terms_of_existing_pods: false }
    }
}

impl Args for InterPodAffinityArgs {
    fn validate(&self, path: &str, errors: &mut Vec<FieldError>) {
        let weight = self.hard_pod_affinity_weight;
        if !(0..=100).contains(&weight) {
            let path = format!("{path}.hardPodAffinityWeight");
            errors.push(FieldError::invalid(path, &json!(weight), "not in valid range [0, 100]"));
        }
    }
}
