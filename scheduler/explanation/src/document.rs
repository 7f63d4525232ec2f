//! The documents that the scheduler serves: a list of attempts, and the explanation of one.

use serde::{Deserialize, Serialize};

/// One line of the list of attempts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Summary {
    /// Number of the attempt since the scheduler started.
    pub id: u64,
    pub at: String,
    /// `namespace/name` of the pod.
    pub pod: String,
    pub uid: String,
    /// Number of the pod's attempt, from 1.
    pub attempt: u32,
    /// The scheduler name of the profile.
    pub profile: String,
    /// `scheduled` or `unschedulable`.
    pub result: String,
    pub node: String,
    /// The reason for which no node fits.
    pub message: String,
    /// What happened after the decision: `bound`, or an error.
    pub end: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AttemptList {
    pub items: Vec<Summary>,
}

/// A pod that a PreEnqueue plugin keeps out of the queue. No cycle runs for it, so there is no attempt to explain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Held {
    /// `namespace/name` of the pod.
    pub pod: String,
    pub uid: String,
    /// The scheduler name of the profile.
    pub profile: String,
    pub since: String,
    /// Milliseconds since then.
    pub for_ms: u64,
    /// The plugin that holds it; empty if none does any more, and the event that tells it is still to come.
    pub plugin: String,
    pub reasons: Vec<String>,
    /// What could let the pod in.
    pub waits_for: Vec<String>,
    /// Number of attempts before.
    pub attempts: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeldList {
    pub items: Vec<Held>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Explanation {
    pub attempt: Summary,
    pub snapshot: SnapshotSize,
    /// The way of the pod through the queue since its last attempt.
    pub queue: Vec<Moved>,
    /// Plugins that rejected the pod in its last attempt.
    pub rejected_by: Vec<String>,
    pub pre_filters: Vec<PreFilterStep>,
    /// Every node of the snapshot, in the order of the search.
    pub nodes: Vec<NodeVerdict>,
    pub choice: Choice,
    pub preemption: Preemptions,
    /// The preemption for the pod's PodGroup, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_preemption: Option<GroupPreemption>,
    pub timings: Vec<PointTime>,
    /// Differences between the recorded decision and the one that this explanation has computed again. They come from
    /// objects outside the snapshot that have changed since, such as volumes.
    pub differences: Vec<String>,
    /// Plugins whose scores are other ones now, for the same reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stale_scores: Vec<String>,
    /// The changes that were asked for; empty for what really happened.
    pub what_if: Vec<String>,
    /// The node that was really chosen, if `what_if` is not empty.
    pub node_before: String,
    pub verification: Option<Verification>,
}

impl Explanation {
    /// Returns the node that a what-if has left as the only candidate.
    pub fn only_candidate(&self) -> Option<&str> {
        self.what_if.iter().find_map(|change| change.strip_prefix("node="))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SnapshotSize {
    pub nodes: usize,
    pub pods: usize,
    /// The highest resource version of these nodes and pods.
    pub revision: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Moved {
    /// Milliseconds before the attempt.
    pub before_ms: u64,
    pub queue: String,
    pub event: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PreFilterStep {
    pub plugin: String,
    /// `Skip`, `AllNodes`, `Nodes` or the code of a rejection.
    pub result: String,
    /// The nodes that remain, if the result is `Nodes`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeVerdict {
    pub name: String,
    /// False for a node that the search did not reach, because enough nodes were found, or that PreFilter excluded.
    pub searched: bool,
    /// True if no filter rejects the node.
    pub fits: bool,
    pub chosen: bool,
    /// Every filter that ran, in order.
    pub filters: Vec<FilterVerdict>,
    /// Empty unless several nodes were found and this is one of them.
    pub scores: Vec<NodeScore>,
    /// The sum of the weighted scores.
    pub total: Option<i64>,
    /// Pods of the same or a higher priority that are nominated to the node. The filters count them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nominated_pods: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FilterVerdict {
    pub plugin: String,
    /// `Success`, `Unschedulable` or `UnschedulableAndUnresolvable`.
    pub result: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeScore {
    pub plugin: String,
    /// The score before normalization.
    pub raw: i64,
    /// The score from 0 to 100.
    pub score: i64,
    pub weight: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Choice {
    pub node: String,
    /// Nodes that were filtered.
    pub evaluated: usize,
    /// Nodes that fit.
    pub feasible: usize,
    pub best_total: Option<i64>,
    /// The nodes with the best total.
    pub ties: Vec<String>,
    /// How one of them was taken: `Random` or `RoundRobin`; empty without a tie.
    pub draw: String,
    /// The node to which the pod was nominated before.
    pub nominated_node: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preemptions {
    /// The node to which preemption has nominated the pod.
    pub nominated_to: String,
    /// Pods that were evicted.
    pub victims: Vec<String>,
    /// What was considered, the best first.
    pub candidates: Vec<PreemptionCandidate>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PreemptionCandidate {
    pub plugin: String,
    pub node: String,
    pub victims: Vec<String>,
    /// Victims that a disruption budget protects.
    pub violations: usize,
    /// The first rule by which the candidate before is better.
    pub worse_because: String,
}

/// The preemption for a PodGroup as a whole. Its cycle is tried without all pods of lower priority, and then with one candidate
/// after the other beside it again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupPreemption {
    /// `namespace/name` of the PodGroup.
    pub pod_group: String,
    /// Why no eviction helps; empty if one does.
    pub message: String,
    /// The victims, and then those that may stay, both in the order in which they were tried.
    pub candidates: Vec<GroupVictim>,
    /// Number of candidates that are not listed.
    pub unlisted: usize,
}

/// Pods that are evicted together, or not at all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupVictim {
    /// Keys of the pods.
    pub pods: Vec<String>,
    /// Their PodGroup, if it is disrupted as a whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod_group: String,
    pub priority: i32,
    /// True if a disruption budget protects one of the pods, so that they were tried before the others.
    pub protected: bool,
    /// True if the group does not fit beside them.
    pub evicted: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PointTime {
    pub point: String,
    pub status: String,
    pub took_us: u64,
}

/// What the reference evaluator says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Verification {
    /// Parts of the pod or profile that the evaluator does not know. If there are any, it is not asked.
    pub unknown: Vec<String>,
    /// Number of verdicts and scores that were compared.
    pub compared: usize,
    /// Plugins whose scores were not compared, because what they read has changed since.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    pub differences: Vec<String>,
}
