//! `QueueSort`, the order of the active queue, and `QueuedPodInfo`, what it compares.
//!
//! Corresponds to QueueSortPlugin and QueuedPodInfo of k8s.io/kube-scheduler/framework.

use crate::Plugin;
use crate::pod_info::PodInfo;
use std::sync::Arc;
use tokio::time::Instant;

/// A pod of the queue.
#[derive(Clone, Debug)]
pub struct QueuedPodInfo {
    pub pod_info: Arc<PodInfo>,
    /// Time at which the pod was added to the queue, or last returned from a cycle.
    pub timestamp: Instant,
    /// Number of cycles.
    pub attempts: u32,
    pub initial_attempt_timestamp: Option<Instant>,
}

/// Orders the active queue. All profiles of a scheduler have the same plugin, and one of them orders the pods of all.
pub trait QueueSort: Plugin {
    /// Returns true if `a` is before `b`.
    ///
    /// The result must be a strict weak order: no pod is before itself, of two pods at most one is before the other, and if `a`
    /// is before `b` and `b` before `c`, then `a` is before `c`. Of two pods of which none is before the other, the one that has
    /// waited longer is first, and then the one that came first. An order that breaks the rules loses no pod, but pods that
    /// contradict each other have any order, and the log says so. A pod whose comparison fails is behind all others.
    fn less(&self, a: &QueuedPodInfo, b: &QueuedPodInfo) -> Result<bool, String>;
}
