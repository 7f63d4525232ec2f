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
pub mod profile;
pub mod rejection;

pub use cycle_state::CycleState;
pub use diagnosis::{Diagnosis, FitError};
pub use event::ClusterEvent;
pub use profile::Profile;
pub use rejection::Rejection;

use crate::cache::{NodeInfo, Snapshot};
use crate::pod_info::PodInfo;
use async_trait::async_trait;
use std::collections::{BTreeMap, BTreeSet};

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
}

/// Whether the pod can run on the node.
pub trait Filter: Plugin {
    fn filter(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection>;
}

/// What a PostFilter plugin could do about a pod that fits nowhere.
#[derive(Debug, Default)]
pub struct PostFiltered {
    /// The node on which room has been made.
    pub nominated_node: Option<String>,
    /// Pods that have to go for it.
    pub victims: Vec<std::sync::Arc<PodInfo>>,
    /// Appended to the reasons why the pod fits nowhere.
    pub message: String,
}

/// Called when no node passes the filters.
pub trait PostFilter: Plugin {
    fn post_filter(
        &self,
        profile: &Profile,
        pod: &PodInfo,
        snapshot: &Snapshot,
        diagnosis: &Diagnosis,
        nominated: &Nominated,
    ) -> PostFiltered;
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
    async fn pre_bind(&self, pod: &PodInfo, node: &str) -> Result<(), BindError>;
}

/// Binds the pod. The first plugin that takes it is the only one.
#[async_trait]
pub trait Bind: Plugin {
    /// `None`: another plugin's business.
    async fn bind(&self, pod: &PodInfo, node: &str) -> Option<Result<(), BindError>>;
}

pub trait PostBind: Plugin {
    fn post_bind(&self, pod: &PodInfo, node: &str);
}

/// Why a pod could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("{plugin}: {message}")]
pub struct BindError {
    pub plugin: &'static str,
    pub message: String,
}

/// Pods for which preemption has made room, by node: whoever is not more important leaves it to them.
#[derive(Clone, Debug, Default)]
pub struct Nominated(BTreeMap<String, BTreeMap<String, std::sync::Arc<PodInfo>>>);

impl Nominated {
    pub fn set(&mut self, pod: std::sync::Arc<PodInfo>, node: &str) {
        self.remove(pod.uid());
        if !node.is_empty() {
            self.0.entry(node.to_owned()).or_default().insert(pod.uid().to_owned(), pod);
        }
    }

    pub fn remove(&mut self, uid: &str) {
        self.0.retain(|_, pods| {
            pods.remove(uid);
            !pods.is_empty()
        });
    }

    /// Others that are nominated to the node and at least as important as the pod.
    pub fn ahead_of<'a>(&'a self, pod: &'a PodInfo, node: &str) -> impl Iterator<Item = &'a std::sync::Arc<PodInfo>> {
        let pods = self.0.get(node).into_iter().flat_map(|pods| pods.values());
        pods.filter(move |other| other.priority >= pod.priority && other.uid() != pod.uid())
    }
}
