//! `Notes`: what an agent keeps in memory of a pod from step to step, because the status has no field for it.
//!
//! Corresponds to the caches of pkg/kubelet: back-off entries, mounted volumes, containers that are being killed. All of
//! it may be lost: an agent that restarts goes on from the status, as a kubelet does.

use proto::kinds::jiff::Timestamp;
use std::collections::BTreeMap;

/// The notes about one pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notes {
    pub mounts: Mounts,
    /// By the name of the container.
    pub containers: BTreeMap<String, ContainerNotes>,
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
    pub fn of(&mut self, container: &str) -> &mut ContainerNotes {
        self.containers.entry(container.to_owned()).or_default()
    }
}
