//! The scheduling framework: the points of a scheduling cycle at which plugins have their say.
//!
//! Corresponds to k8s.io/kube-scheduler/framework and pkg/scheduler/framework.
//!
//! ```text
//! queue:    PreEnqueue  QueueSort
//! cycle:    PreFilter -> Filter each node -> (PostFilter if none fits) -> PreScore -> Score each node -> Reserve -> Permit
//! binding:  PreBind -> Bind -> PostBind          (a failure after Reserve calls Unreserve in reverse order)
//! ```

pub mod cycle_state;
pub mod diagnosis;
pub mod event;
pub mod nominated;
pub mod profile;
pub mod rejection;

pub use cycle_state::CycleState;
pub use diagnosis::{Diagnosis, FitError};
pub use event::ClusterEvent;
pub use nominated::Nominated;
pub use profile::Profile;
pub use rejection::Rejection;

use crate::cache::{NodeInfo, Snapshot};
use crate::pod_info::PodInfo;
use async_trait::async_trait;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The highest score a plugin gives a node, before weights.
pub const MAX_NODE_SCORE: i64 = 100;

pub trait Plugin: Send + Sync {
    fn name(&self) -> &'static str;

    /// A queueing hint: whether this event can make a pod schedulable that this plugin has rejected.
    /// Asked only of plugins that have; answering "yes" too often costs a cycle, "no" wrongly leaves a pod behind.
    fn is_helped_by(&self, _pod: &PodInfo, _event: &ClusterEvent) -> bool {
        false
    }
}

/// Whether a pod may enter the active queue at all.
pub trait PreEnqueue: Plugin {
    fn pre_enqueue(&self, pod: &PodInfo) -> Result<(), Rejection>;
}

/// The order of the active queue: the smaller rank goes first. One plugin only.
pub trait QueueSort: Plugin {
    fn rank(&self, pod: &PodInfo) -> i64;
}

/// What a PreFilter plugin has found out.
#[derive(Debug)]
pub enum PreFiltered {
    /// Its Filter has nothing to say about this pod.
    Skip,
    AllNodes,
    /// No other node can pass its Filter.
    Nodes(BTreeSet<String>),
}

/// Once a cycle, before any node is looked at.
pub trait PreFilter: Plugin {
    fn pre_filter(&self, state: &mut CycleState, pod: &PodInfo, snapshot: &Snapshot) -> Result<PreFiltered, Rejection>;

    /// Brings what `pre_filter` has written up to date with a world in which the node has one pod more.
    fn add_pod(&self, _state: &mut CycleState, _pod: &PodInfo, _added: &PodInfo, _node: &NodeInfo) {}

    /// The same for one pod less.
    fn remove_pod(&self, _state: &mut CycleState, _pod: &PodInfo, _removed: &PodInfo, _node: &NodeInfo) {}
}

/// Whether the pod can run on the node.
pub trait Filter: Plugin {
    fn filter(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection>;
}

/// What becomes of the node that a pod is nominated to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Nomination {
    /// It stays as it is.
    #[default]
    Keep,
    /// Nothing has come of it; others need not wait for the pod.
    Clear,
    /// Room has been made here.
    Node(String),
}

/// A cycle that has found no node, as PostFilter plugins get to see it.
pub struct Unfit<'a> {
    pub profile: &'a Profile,
    pub state: &'a CycleState,
    pub pod: &'a PodInfo,
    pub snapshot: &'a Snapshot,
    pub diagnosis: &'a Diagnosis,
    pub nominated: &'a Nominated,
}

/// What PostFilter plugins could do about a pod that fits nowhere.
#[derive(Debug, Default)]
pub struct PostFiltered {
    pub nomination: Nomination,
    /// Pods that have to go for it.
    pub victims: Vec<Arc<PodInfo>>,
    /// Why it is no use; appended to the reasons why the pod fits nowhere. Empty where room has been made.
    pub message: String,
}

/// Called when no node passes the filters, one after the other until one has made room.
pub trait PostFilter: Plugin {
    /// An error ends the search: its text is all that is said.
    fn post_filter(&self, unfit: &Unfit<'_>) -> Result<PostFiltered, String>;
}

/// Once a cycle, with the nodes that are going to be scored. `Skip` leaves the plugin's Score out.
pub trait PreScore: Plugin {
    fn pre_score(&self, state: &mut CycleState, pod: &PodInfo, snapshot: &Snapshot, nodes: &[&NodeInfo]) -> PreScored;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreScored {
    Skip,
    Score,
}

/// How good a node is. After `normalize`, scores lie between 0 and `MAX_NODE_SCORE`.
pub trait Score: Plugin {
    fn score(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo, snapshot: &Snapshot) -> i64;

    fn normalize(&self, _state: &CycleState, _pod: &PodInfo, _nodes: &[&NodeInfo], _scores: &mut [i64]) {}
}

/// Claims what a pod will use on its node, until it is bound or given up.
pub trait Reserve: Plugin {
    fn reserve(&self, state: &mut CycleState, pod: &PodInfo, node: &str) -> Result<(), Rejection>;
    fn unreserve(&self, state: &CycleState, pod: &PodInfo, node: &str);
}

/// The last word before binding.
pub trait Permit: Plugin {
    fn permit(&self, state: &CycleState, pod: &PodInfo, node: &str) -> Result<(), Rejection>;
}

/// What has to be done before a pod is bound: provisioning a volume, for example.
#[async_trait]
pub trait PreBind: Plugin {
    async fn pre_bind(&self, pod: &PodInfo, node: &str) -> Result<(), String>;
}

/// Binds the pod. The first plugin that takes it is the only one.
#[async_trait]
pub trait Bind: Plugin {
    /// `None`: another plugin's business.
    async fn bind(&self, pod: &PodInfo, node: &str) -> Option<Result<(), String>>;
}

pub trait PostBind: Plugin {
    fn post_bind(&self, pod: &PodInfo, node: &str);
}

/// Why a pod could not be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("running {point} plugin {plugin:?}: {message}")]
    Plugin { point: &'static str, plugin: &'static str, message: String },
    #[error("no plugin binds this pod")]
    NoBinder,
}
