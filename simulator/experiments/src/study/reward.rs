//! The reward of an agent that learns to schedule: a weighted sum. `learning::ledger` computes it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of the reward, by exactly one of `term` and `metric`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reward {
    /// What each step adds.
    #[serde(default)]
    pub term: Option<Term>,
    /// A metric of the whole episode, which its last step adds.
    #[serde(default)]
    pub metric: Option<String>,
    /// Factor of this part; negative for what is bad.
    pub weight: f64,
}

/// What a step adds. A step goes from one decision to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Term {
    /// Seconds that pods have waited for a node in the step, all pods together.
    #[serde(rename = "pending")]
    Pending,
    /// Seconds that pods have waited or run in the step, all pods together: over an episode the sum of all job completion times.
    #[serde(rename = "unfinished")]
    Unfinished,
    /// Share of the cluster's CPU that is allocated, times the seconds of the step.
    #[serde(rename = "allocation.cpu")]
    AllocationCpu,
    #[serde(rename = "allocation.memory")]
    AllocationMemory,
    #[serde(rename = "allocation.gpu")]
    AllocationGpu,
    /// GPUs by which the fragments of the cluster have grown in the step, as FGD defines them.
    #[serde(rename = "fragmentation")]
    Fragmentation,
    /// Share of the chosen node that is allocated with the pod, the mean of CPU, memory and GPU; 0 without a node.
    #[serde(rename = "bin-packing")]
    BinPacking,
    /// 1 if the pod has to wait.
    #[serde(rename = "waited")]
    Waited,
    /// 1 if the action named a node on which the pod does not fit.
    #[serde(rename = "invalid")]
    Invalid,
}
