//! `PodChanges`: the nodes that get a pod, and the pods to delete.
//!
//! Corresponds to syncNodes in pkg/controller/daemon/daemon_controller.go.

use super::daemon_pod;
use client::Action;
use controller_base::actions;
use proto::Kind;
use proto::kinds::api::apps::v1::DaemonSet;
use proto::kinds::api::core::v1::Pod;
use std::time::Duration;

/// Limit on the pods that one round creates, and on those that it deletes.
pub const BURST: usize = 250;

#[derive(Debug, Default, PartialEq)]
pub struct PodChanges<'a> {
    /// Names of nodes.
    pub create: Vec<&'a str>,
    pub delete: Vec<Deletion<'a>>,
    /// Time after which a failed pod may be deleted.
    pub wait: Option<Duration>,
}

#[derive(Debug, PartialEq)]
pub struct Deletion<'a> {
    pub pod: &'a Pod,
    /// What the event about the deletion says; `None` for a deletion without an event of its own.
    pub ended: Option<EndedOn<'a>>,
}

/// The deleted pod has ended, on a node that is to have a running one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedOn<'a> {
    Failed(&'a str),
    Succeeded(&'a str),
}

impl<'a> Deletion<'a> {
    pub fn of(pod: &'a Pod) -> Self {
        Self { pod, ended: None }
    }

    fn event(&self, set: &DaemonSet) -> Option<Action> {
        let (namespace, name) = (self.pod.namespace(), self.pod.name());
        Some(match self.ended? {
            EndedOn::Failed(node) => {
                let message = format!("Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it");
                actions::warning(set, "FailedDaemonPod", message)
            }
            EndedOn::Succeeded(node) => {
                let message =
                    format!("Found succeeded daemon pod {namespace}/{name} on node {node}, will try to delete it");
                actions::normal(set, "SucceededDaemonPod", message)
            }
        })
    }
}

impl PodChanges<'_> {
    pub fn is_empty(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }

    /// Returns the events and deletions of this round.
    pub fn deletions(&self, set: &DaemonSet) -> Vec<Action> {
        let deletions = &self.delete[..self.delete.len().min(BURST)];
        let events = deletions.iter().filter_map(|deletion| deletion.event(set));
        events.chain(deletions.iter().map(|deletion| actions::delete_exactly(deletion.pod))).collect()
    }

    /// Returns the creations of this round.
    pub fn creations(&self, set: &DaemonSet, hash: &str) -> Vec<Action> {
        let pod = daemon_pod::of_revision(set, hash);
        let nodes = self.create.iter().take(BURST);
        nodes.map(|node| Action::create(&daemon_pod::for_node(&pod, node))).collect()
    }
}
