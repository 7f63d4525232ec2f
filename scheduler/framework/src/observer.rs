//! `Observer`, who sees each pod's part of a pod group cycle while its snapshot is there.

use crate::cache::Snapshot;
use crate::cycle::Decision;
use crate::timings::Timings;
use crate::{CycleError, CycleState, Nominated, PostFilterResult};
use tokio::time::Instant;

pub trait Observer: Send + Sync {
    /// Returns the clock of a pod's part.
    fn timings(&self) -> Timings;

    /// Runs after the decision about a pod. `pod` is its place in the group.
    fn decided(&self, pod: usize, observed: Observed<'_>);
}

/// What one pod was given, and what came of it.
pub struct Observed<'a> {
    pub began: Option<Instant>,
    pub state: &'a mut CycleState,
    /// The nodes with the pods of the group that have come before.
    pub snapshot: &'a Snapshot,
    pub nominated: &'a Nominated,
    /// Index of the node at which the search began.
    pub next_start: usize,
    pub decided: &'a Result<Decision, CycleError>,
    /// The result of the PostFilter plugins, if they ran.
    pub post_filter: Option<&'a PostFilterResult>,
}
