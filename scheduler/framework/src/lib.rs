//! The scheduling framework: the extension points of a scheduling cycle, as traits that plugins implement.
//!
//! Corresponds to k8s.io/kube-scheduler/framework and pkg/scheduler/framework.
//!
//! ```text
//! queue:    PreEnqueue  QueueSort
//! cycle:    PreFilter -> Filter each node -> (PostFilter if none fits) -> PreScore -> Score each node -> Reserve -> Permit
//! binding:  PreBind -> Bind -> PostBind          (a failure after Reserve calls Unreserve in reverse order)
//! ```

// Which features there are.
pub mod features;

// What a cycle reads.
pub mod pod_info;
pub mod shape;
pub mod cache;
pub mod pod_groups;

// A cycle and its parts.
pub mod cycle;
pub mod cycle_extender;
pub mod rejection;
pub mod timings;
pub mod plugin_names;
pub mod cycle_state;
pub mod rejections;
pub mod diagnosis;
pub mod event;
pub mod nominated;
pub mod per_shape;
pub mod simulation;
pub mod simulation_basis;
pub mod kept_candidates;
pub mod nominated_verdicts;
pub mod verdicts;
pub mod feasible_nodes;
pub mod local_scores;
pub mod kept_results;
pub mod plugin_scores;
pub mod profile;
pub mod preemption;
pub mod node_judge;
pub mod queue_sort;
pub mod sign;
pub mod batch;
pub mod placement;
pub mod observer;
pub mod pod_group_cycle;
pub mod pod_group_preemption;

// From a configuration to profiles.
pub mod configuration;
pub mod points;
pub mod registry;
pub mod assembly;
pub mod profiles;

// Pods between Permit and PreBind.
pub mod waiting_pods;

#[cfg(any(test, feature = "testing"))]
pub mod fixture;

pub use cycle_extender::{CycleError, CycleExtender};
pub use cycle_state::CycleState;
pub use diagnosis::{Diagnosis, FitError};
pub use event::ClusterEvent;
pub use feasible_nodes::FeasibleNodes;
pub use features::Features;
pub use nominated::Nominated;
pub use placement::{PlacementGenerate, PlacementScore};
pub use pod_group_preemption::PodGroupPostFilter;
pub use pod_groups::PodGroups;
pub use points::Points;
pub use profile::Profile;
pub use profiles::Profiles;
pub use queue_sort::{QueueSort, QueuedPodInfo};
pub use registry::{Handle, Register, Registry};
pub use rejection::Rejection;
pub use rejections::Rejections;
pub use sign::Sign;
pub use waiting_pods::WaitingPods;

use crate::cache::{NodeInfo, NodeRow, Snapshot};
use crate::node_judge::FilterByNumber;
use crate::pod_info::PodInfo;
use crate::simulation_basis::SimulationBasis;
use async_trait::async_trait;
use client::Action;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Highest score that a plugin gives a node, before weights.
pub const MAX_NODE_SCORE: i64 = 100;
/// Name of all extenders together, where others are plugins.
pub const EXTENDER: &str = "Extender";

pub trait Plugin: Send + Sync {
    fn name(&self) -> &'static str;

    /// The queueing hint: returns true if this event may make a pod schedulable that this plugin has rejected. A wrong
    /// "true" costs a cycle; a wrong "false" leaves the pod unschedulable until the periodic flush.
    fn may_become_schedulable(&self, _pod: &PodInfo, _event: &ClusterEvent) -> bool {
        false
    }
}

/// Rejects pods that must not enter the active queue.
pub trait PreEnqueue: Plugin {
    fn pre_enqueue(&self, pod: &PodInfo) -> Result<(), Rejection>;

    /// Returns what could let in a pod that the plugin rejects now, in words for an explanation.
    fn waits_for(&self, _pod: &PodInfo) -> Vec<String> {
        Vec::new()
    }
}

/// The result of a PreFilter plugin.
#[derive(Debug)]
pub enum PreFilterResult {
    /// The plugin's Filter is skipped for this pod.
    Skip,
    /// Any node may pass the plugin's Filter.
    AllNodes,
    /// Only these nodes may pass the plugin's Filter.
    Nodes(BTreeSet<String>),
}

/// Runs once in a cycle, before nodes are filtered.
pub trait PreFilter: Plugin {
    fn pre_filter(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
    ) -> Result<PreFilterResult, Rejection>;

    /// Updates the data of `pre_filter` for a simulation in which the node has one more pod.
    fn add_pod(&self, _state: &mut CycleState, _pod: &PodInfo, _added: &PodInfo, _node: &NodeInfo) {}

    /// Updates the data of `pre_filter` for a simulation in which the node has one pod less.
    fn remove_pod(&self, _state: &mut CycleState, _pod: &PodInfo, _removed: &PodInfo, _node: &NodeInfo) {}
}

/// Rejects nodes on which the pod cannot run.
pub trait Filter: Plugin {
    fn filter(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection>;

    /// Returns true if the verdict depends on nothing but what `PodInfo::needs_same_node` compares, the node, and its pods as
    /// far as `PodInfo::counts_as` compares them. Then it is kept until the node changes.
    fn is_local(&self, _state: &CycleState) -> bool {
        false
    }

    /// Returns the verdict if the row of a node suffices for it. A filter that is not local is not asked. This spares the look at
    /// the node itself.
    fn filter_by_row(&self, _state: &CycleState, _pod: &PodInfo, _row: &NodeRow) -> Option<Result<(), Rejection>> {
        None
    }

    /// Returns true if the row of a node always suffices. Then preemption simulates the sums of a node instead of its pods.
    fn reads_only_rows(&self) -> bool {
        false
    }

    /// Returns false if the verdict is the same whatever pods are on the node. Then preemption asks once for a node.
    fn reads_pods(&self) -> bool {
        true
    }

    /// Returns what the verdict depends on besides what `is_local` allows: numbers for each node that tell whether two verdicts there
    /// are equal, also while pods of this node alone come and go. Then what preemption finds on a node is kept while they stay.
    /// `None` if that is not known.
    fn basis<'a>(
        &'a self,
        _state: &'a CycleState,
        _pod: &'a PodInfo,
        _snapshot: &'a Snapshot,
    ) -> Option<SimulationBasis<'a>> {
        None
    }

    /// Returns the filter for the nodes of the snapshot by their numbers, with its data read once for all of them. `None`
    /// if it is to filter them one by one.
    fn by_number<'a>(
        &'a self,
        _state: &'a CycleState,
        _pod: &'a PodInfo,
        _snapshot: &'a Snapshot,
    ) -> Option<FilterByNumber<'a>> {
        None
    }
}

/// The change of a pod's nominated node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Nomination {
    /// The nomination stays.
    #[default]
    Keep,
    /// The nomination is removed, so that other pods may use the node.
    Clear,
    /// The pod is nominated to this node.
    Node(String),
}

/// A cycle that has found no node, as the input of PostFilter plugins.
pub struct FailedCycle<'a> {
    pub profile: &'a Profile,
    pub state: &'a CycleState,
    pub pod: &'a PodInfo,
    pub snapshot: &'a Snapshot,
    pub diagnosis: &'a Diagnosis,
    pub nominated: &'a Nominated,
}

/// The result of a PostFilter plugin.
#[derive(Debug, Default)]
pub struct PostFilterResult {
    pub nomination: Nomination,
    /// Pods to evict.
    pub victims: Vec<Arc<PodInfo>>,
    /// All nodes among which the plugin has chosen, for extenders that take part in preemption.
    pub candidates: Vec<Arc<preemption::Candidate>>,
    /// Other writes that may let the pod fit.
    pub writes: Vec<Action>,
    /// Message about why the plugin cannot help; empty after a nomination.
    pub message: String,
    /// Messages of the plugins that could not help before this one nominated a node.
    pub earlier_messages: Vec<String>,
}

/// Runs when no node passes the filters. The plugins run in order until one nominates a node.
pub trait PostFilter: Plugin {
    /// An error skips the remaining plugins, and replaces their messages.
    fn post_filter(&self, failed: &FailedCycle<'_>) -> Result<PostFilterResult, String>;

    /// Returns what the plugin would consider, the best first, for an explanation. It changes nothing.
    fn candidates(&self, _failed: &FailedCycle<'_>) -> Vec<Preemption> {
        Vec::new()
    }
}

/// A node on which a pod would fit without the victims.
#[derive(Clone, Debug, PartialEq)]
pub struct Preemption {
    pub node: String,
    /// Keys of the victims, the highest priority first.
    pub victims: Vec<String>,
    /// Number of victims that a disruption budget protects.
    pub violations: usize,
    /// The first rule by which the candidate before this one is better; empty for the best.
    pub worse_because: String,
}

/// Runs once in a cycle, with the nodes to score. `Skip` skips the plugin's Score.
pub trait PreScore: Plugin {
    fn pre_score(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
        nodes: &FeasibleNodes<'_>,
    ) -> PreScoreResult;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreScoreResult {
    Skip,
    Score,
}

/// What `Score::normalize` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalization {
    /// Nothing.
    None,
    /// It scales the scores to the highest one. If all are zero, the nodes get the same.
    ToHighest,
    /// Something else.
    Own,
}

/// Scores a node. After `normalize`, scores are between 0 and `MAX_NODE_SCORE`.
pub trait Score: Plugin {
    fn score(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo, snapshot: &Snapshot) -> i64;

    /// Returns true if the score, before `normalize`, depends on nothing but what `Filter::is_local` allows. Then it is kept until
    /// the node changes.
    fn is_local(&self, _state: &CycleState) -> bool {
        false
    }

    /// Returns the score if the row of the node suffices for it. This spares the look at the node itself.
    fn score_by_row(&self, _state: &CycleState, _pod: &PodInfo, _row: &NodeRow) -> Option<i64> {
        None
    }

    /// Returns the score of all nodes, after `normalize`, if it is the same for all.
    fn uniform_score(&self, _pod: &PodInfo, _snapshot: &Snapshot) -> Option<i64> {
        None
    }

    /// Scores all nodes.
    fn score_all(&self, state: &CycleState, pod: &PodInfo, nodes: &FeasibleNodes<'_>, snapshot: &Snapshot) -> Vec<i64> {
        nodes.iter().map(|node| self.score(state, pod, node, snapshot)).collect()
    }

    /// Says what `normalize` does. The sums of scores that it leaves as they are can be kept.
    fn normalization(&self) -> Normalization {
        Normalization::Own
    }

    fn normalize(&self, _state: &CycleState, _pod: &PodInfo, _nodes: &FeasibleNodes<'_>, _scores: &mut [i64]) {}
}

/// Reserves what a pod will use on its node.
pub trait Reserve: Plugin {
    fn reserve(&self, state: &mut CycleState, pod: &PodInfo, node: &str) -> Result<(), Rejection>;
    fn unreserve(&self, state: &CycleState, pod: &PodInfo, node: &str);
}

/// What a Permit plugin lets a pod do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    Allow,
    /// The pod waits up to this time until the plugin allows or rejects it through `WaitingPods`.
    Wait(Duration),
}

/// Runs last before the binding cycle. It may reject the pod, or let it wait.
pub trait Permit: Plugin {
    fn permit(&self, state: &mut CycleState, pod: &PodInfo, node: &str) -> Result<Permission, Rejection>;
}

/// Whether a PreBind plugin has something to do for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreBindPreFlight {
    Skip,
    Run,
}

/// Runs before a pod is bound, for example to provision a volume. It may take minutes.
#[async_trait]
pub trait PreBind: Plugin {
    fn pre_bind_pre_flight(&self, state: &CycleState, pod: &PodInfo, node: &str) -> PreBindPreFlight;
    async fn pre_bind(&self, state: &CycleState, pod: &PodInfo, node: &str) -> Result<(), String>;
}

/// Binds the pod. After a plugin has handled a pod, the others do not run.
#[async_trait]
pub trait Bind: Plugin {
    /// Returns `None` if the plugin does not handle the pod. The pod gets the `binding_annotations` of the state.
    async fn bind(&self, state: &CycleState, pod: &PodInfo, node: &str) -> Option<Result<(), String>>;
}

pub trait PostBind: Plugin {
    fn post_bind(&self, pod: &PodInfo, node: &str);
}

/// An error of the binding cycle.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("running {point} plugin {plugin:?}: {message}")]
    Plugin { point: &'static str, plugin: &'static str, message: String },
    #[error("no plugin binds this pod")]
    NoBinder,
    /// An extender has not bound the pod; the text is its own.
    #[error("{0}")]
    Extender(String),
}
