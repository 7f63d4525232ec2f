//! `Trail`, the way of a pod through the queue since its last attempt, and the counts of all such moves.
//!
//! Corresponds to queue_incoming_pods_total and to PendingPods of pkg/scheduler/backend/queue.

use super::{QueuePosition, QueuedPod, SchedulingQueue};
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Most moves that a pod remembers. A pod moves three times between two attempts; more only while gates come and go.
const MAX_MOVES: usize = 6;

pub const POD_ADDED: &str = "UnschedulablePodAdd";
pub const POD_UPDATED: &str = "UnschedulablePodUpdate";
pub const ATTEMPT_FAILED: &str = "ScheduleAttemptFailure";
pub const BACKOFF_COMPLETE: &str = "BackoffComplete";
pub const POPPED_FROM_BACKOFF: &str = "PopFromBackoffQ";
pub const FORCED: &str = "ForceActivate";
pub const TIMED_OUT: &str = "UnschedulableTimeout";

/// One move of a pod.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    pub at: Instant,
    /// The part of the queue that the pod enters: `active`, `backoff`, `unschedulable` or `gated`.
    pub queue: &'static str,
    /// The event that moves the pod, as Kubernetes labels it.
    pub event: &'static str,
}

/// The last moves of a pod, the oldest first. It needs no memory of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trail {
    moves: [Option<Move>; MAX_MOVES],
}

impl Trail {
    pub fn push(&mut self, last: Move) {
        let at = self.moves.iter().position(Option::is_none).unwrap_or_else(|| {
            self.moves.rotate_left(1);
            MAX_MOVES - 1
        });
        self.moves[at] = Some(last);
    }

    pub fn moves(&self) -> impl Iterator<Item = &Move> {
        self.moves.iter().flatten()
    }
}

impl QueuePosition {
    /// Returns the label of Kubernetes' metrics.
    pub(super) fn label(&self) -> &'static str {
        match self {
            QueuePosition::Active(_) => "active",
            QueuePosition::Backoff(_) | QueuePosition::ErrorBackoff(_) => "backoff",
            QueuePosition::Unschedulable(_) => "unschedulable",
            QueuePosition::Gated(_) => "gated",
        }
    }
}

impl SchedulingQueue {
    /// Counts a move, and adds it to the pod's trail.
    pub(super) fn record_move(&mut self, queued: &mut QueuedPod, queue: &'static str, event: &'static str) {
        queued.trail.push(Move { at: self.present, queue, event });
        *self.incoming.entry((queue, event)).or_insert(0) += 1;
    }

    /// Returns the number of pods that entered each part of the queue, by part and event.
    pub fn incoming(&self) -> &BTreeMap<(&'static str, &'static str), u64> {
        &self.incoming
    }

    /// Returns every pod of the queue with the label of its part, by uid.
    pub fn pending(&self) -> impl Iterator<Item = (&QueuedPod, &'static str)> {
        self.pods.values().map(|(queued, position)| (queued, position.label()))
    }

    /// Returns the uids of all pods in the queue or in a cycle.
    pub fn uids(&self) -> Vec<String> {
        self.pods.keys().chain(self.in_flight.keys()).cloned().collect()
    }

    /// Returns the events that are kept for pods in flight, by label.
    pub fn inflight_events(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for event in self.recent.values() {
            *counts.entry(event.label()).or_insert(0) += 1;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_trail_keeps_the_last_moves() {
        let at = component_base::env::Env::simulated(1).now();
        let mut trail = Trail::default();
        for event in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            trail.push(Move { at, queue: "active", event });
        }
        let events: Vec<&str> = trail.moves().map(|one| one.event).collect();
        assert_eq!(events, ["c", "d", "e", "f", "g", "h"]);
    }
}
