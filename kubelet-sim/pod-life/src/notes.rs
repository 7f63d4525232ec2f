//! `Notes`: what an agent keeps in memory of a pod from step to step, because the status has no field for it.
//!
//! Corresponds to the caches of pkg/kubelet: back-off entries, mounted volumes, containers that are being killed. All of
//! it may be lost: an agent that restarts goes on from the status, as a kubelet does.

use proto::kinds::jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// The notes about one pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notes {
    pub mounts: Mounts,
    /// By the name of the container.
    pub containers: BTreeMap<String, ContainerNotes>,
    /// The last time in which the pod's machine was without power.
    pub outage: Option<Outage>,
    /// Set when the node ends the pod.
    pub termination: Option<NodeTermination>,
    /// When the pod was first seen to end, by a clock that is behind the one that dated the request.
    pub ending_seen_at: Option<Timestamp>,
}

/// The end of a pod by its node: it is evicted or preempted, or the node shuts down.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeTermination {
    pub asked_at: Timestamp,
    pub grace: Duration,
    /// Reason and message of the pod's final status.
    pub reason: &'static str,
    pub message: String,
    /// The message of the condition `DisruptionTarget`; `None` when the pod does not get it.
    pub disruption: Option<String>,
}

/// A time without power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    pub off_at: Timestamp,
    pub on_at: Timestamp,
}

/// Whether a pod's volumes are mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Mounts {
    /// No attempt has failed: they are mounted when the pod starts.
    #[default]
    Untried,
    /// The last attempt has failed.
    Failing,
    /// Mounted at this time, after an attempt that failed.
    MountedAt(Timestamp),
}

/// The notes about one container.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ContainerNotes {
    /// The run whose process exists, and since when. Its status says so only after the post-start hook.
    pub created: Option<(i32, Timestamp)>,
    /// The run that is replaced because the container's image has changed, and since when.
    pub replaced: Option<(i32, Timestamp)>,
    /// The run that is replaced because its new resources require a restart.
    pub resize_restarts: Option<i32>,
    /// The `restartCount` from which crashes count for the back-off.
    pub crashes_from: i32,
}

impl Notes {
    /// Returns the message of the condition that tells of the end by the node.
    pub fn disruption(&self) -> Option<&str> {
        self.termination.as_ref()?.disruption.as_deref()
    }

    pub fn of(&mut self, container: &str) -> &mut ContainerNotes {
        self.containers.entry(container.to_owned()).or_default()
    }
}
