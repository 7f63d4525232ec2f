//! `Attempts`, a receiver of what a scheduler tries.

use crate::attempt::Attempt;
use crate::document::GroupPreemption;
use scheduling_framework::cache::Snapshot;
use std::sync::Arc;

/// Receives every attempt of a scheduler. `Recorder` keeps the last ones to explain them; a simulation writes all of them
/// into a table.
pub trait Attempts: Send + Sync {
    /// Notes that the scheduler has taken a pod from the queue.
    fn begins(&self) {}

    /// Receives an attempt with the nodes on which it was made. Returns the number by which `end` names it.
    fn record(&self, attempt: Attempt, snapshot: &Snapshot) -> u64;

    /// Notes what preemption for the PodGroup of these attempts' pods has come to.
    fn preempted_for_group(&self, _ids: &[u64], _preemption: Arc<GroupPreemption>) {}

    /// Notes what happened after the decision.
    fn end(&self, id: u64, end: &str);
}
