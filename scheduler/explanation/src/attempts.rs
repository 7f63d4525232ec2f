//! `Attempts`, a receiver of what a scheduler tries.

use crate::attempt::Attempt;
use scheduling_framework::cache::Snapshot;

/// Receives every attempt of a scheduler. `Recorder` keeps the last ones to explain them; a simulation writes all of them
/// into a table.
pub trait Attempts: Send + Sync {
    /// Notes that the scheduler has taken a pod from the queue.
    fn begins(&self) {}

    /// Receives an attempt with the nodes on which it was made. Returns the number by which `end` names it.
    fn record(&self, attempt: Attempt, snapshot: &Snapshot) -> u64;

    /// Notes what happened after the decision.
    fn end(&self, id: u64, end: &str);
}
