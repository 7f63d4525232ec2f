//! What the scheduler tells of its attempts: metrics, and the inputs of explanations.

use super::{Attempt, Scheduler};
use crate::metrics::AttemptResult;
use crate::queue::preempting::PREEMPTION;
use scheduler_explanation::{Attempt as KeptAttempt, Outcome, QueueMove};
use scheduling_framework::cache::Snapshot;
use scheduling_framework::timings::PointTiming;
use scheduling_framework::{FitError, Nominated, Nomination, PostFilterResult};

impl Scheduler {
    /// Counts a run of the PostFilter plugins.
    pub(super) fn count_preemption(&self, attempt: &Attempt, result: &PostFilterResult) {
        if attempt.profile.post_filter.iter().any(|plugin| plugin.name() == PREEMPTION) {
            self.metrics.preempted(result.victims.len());
        }
    }

    /// Returns the outcome of a cycle without a node; empty if nothing is kept.
    pub(super) fn not_found(&self, error: &FitError, result: &PostFilterResult) -> Outcome {
        match self.attempts {
            None => Outcome::NotFound { error: FitError::NoNodes, nomination: Nomination::Keep, victims: Vec::new() },
            Some(_) => Outcome::NotFound {
                error: error.clone(),
                nomination: result.nomination.clone(),
                victims: result.victims.iter().map(|victim| victim.key.clone()).collect(),
            },
        }
    }

    /// Keeps an attempt, if attempts are kept. Returns its number in their list.
    pub(super) fn keep(
        &self,
        attempt: &Attempt,
        timings: Vec<PointTiming>,
        snapshot: &Snapshot,
        nominated: Nominated,
        next_start: usize,
        outcome: Outcome,
    ) -> Option<u64> {
        let attempts = self.attempts.as_ref()?;
        let queued = &attempt.queued;
        let moves = queued.trail.moves().map(|one| QueueMove {
            before: attempt.began.saturating_duration_since(one.at),
            queue: one.queue,
            event: one.event,
        });
        let kept = KeptAttempt {
            id: 0,
            at: self.env.wall(),
            took: self.env.now() - attempt.began,
            pod: queued.info.clone(),
            number: queued.attempts,
            moves: moves.collect(),
            rejected_by: queued.rejected_by.iter().copied().collect(),
            profile: attempt.profile.clone(),
            namespaces: snapshot.namespaces().clone(),
            nominated,
            next_start,
            timings,
            outcome,
            group_preemption: Default::default(),
            end: Default::default(),
        };
        Some(attempts.record(kept, snapshot))
    }

    /// Counts the end of an attempt, and adds it to the attempt that is kept.
    pub(super) fn ended(&self, attempt: &Attempt, result: AttemptResult, message: &str) {
        let (now, queued) = (self.env.now(), &attempt.queued);
        let first = queued.first_attempt.map_or_else(Default::default, |first| now - first);
        self.metrics.ended(result, &attempt.profile, now - attempt.began, queued.attempts, first);
        if result == AttemptResult::Scheduled && queued.was_flushed {
            self.metrics.scheduled_after_flush();
        }
        if let (Some(attempts), Some(id)) = (&self.attempts, attempt.kept) {
            attempts.end(id, message);
        }
    }
}
