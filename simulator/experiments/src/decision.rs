//! What the scheduler has decided: one row for each attempt, and on demand one for each word of a plugin on a node.
//!
//! Metrics do not need them. They answer why a pod got its node, or why it got none.

use serde::{Deserialize, Serialize};

/// One attempt to schedule a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// Number of the attempt in the run, from 1.
    pub number: u64,
    /// When the scheduler took the pod from its queue.
    pub at_us: u64,
    /// Virtual time until the decision. It is zero unless an extender or a script is asked.
    pub took_us: u64,
    /// `namespace/name`.
    pub pod: String,
    /// Number of the pod's attempt, from 1.
    pub attempt: u32,
    /// Scheduler name of the profile.
    pub profile: String,
    /// `scheduled`, `unschedulable` or `error`.
    pub result: String,
    pub node: String,
    /// Nodes that were filtered.
    pub evaluated: u64,
    /// Nodes that fit.
    pub feasible: u64,
    /// Nodes with the highest total.
    pub ties: u64,
    /// The highest total; `None` if nothing was scored.
    pub score: Option<i64>,
    /// Pods that preemption deletes.
    pub victims: u64,
    pub reason: String,
}

/// One plugin's word on one node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Number of the attempt in the run.
    pub number: u64,
    pub pod: String,
    pub node: String,
    /// False for a node that the search did not reach.
    pub searched: bool,
    pub fits: bool,
    pub chosen: bool,
    /// `Filter` or `Score`.
    pub point: String,
    pub plugin: String,
    /// `Success`, or the code of the rejection.
    pub result: String,
    pub reasons: String,
    /// The score before it is normalised.
    pub raw: Option<i64>,
    pub normalised: Option<i64>,
    pub weight: Option<i64>,
}
