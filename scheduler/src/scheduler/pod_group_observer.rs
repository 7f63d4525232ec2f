//! `GroupObserver`, the metrics and explanations of the pods of one pod group cycle.

use super::{Attempt, Scheduler};
use parking_lot::Mutex;
use scheduler_explanation::Outcome;
use scheduling_framework::CycleError;
use scheduling_framework::observer::{Observed, Observer};
use scheduling_framework::timings::Timings;
use std::collections::BTreeMap;

pub(super) struct GroupObserver<'a> {
    scheduler: &'a Scheduler,
    attempts: &'a [Attempt],
    /// Numbers of the attempts that are kept, by the pod's place in the group.
    kept: Mutex<BTreeMap<usize, u64>>,
}

impl<'a> GroupObserver<'a> {
    pub fn new(scheduler: &'a Scheduler, attempts: &'a [Attempt]) -> Self {
        Self { scheduler, attempts, kept: Mutex::default() }
    }

    pub fn into_kept(self) -> BTreeMap<usize, u64> {
        self.kept.into_inner()
    }
}

impl Observer for GroupObserver<'_> {
    fn timings(&self) -> Timings {
        self.scheduler.metrics.timings(&self.scheduler.env)
    }

    fn decided(&self, pod: usize, observed: Observed<'_>) {
        let Self { scheduler, attempts, kept } = self;
        let Observed { began, state, snapshot, nominated, next_start, decided, post_filter } = observed;
        let attempt = &attempts[pod];
        let took = scheduler.env.now() - began.unwrap_or(attempt.began);
        scheduler.metrics.decided(&attempt.profile, state, decided, took);
        scheduler.metrics.observe(&attempt.profile, &state.timings);
        if let Some(result) = post_filter {
            scheduler.count_preemption(attempt, result);
        }
        let points = std::mem::take(&mut state.timings.points);
        if scheduler.attempts.is_none() {
            return;
        }
        let outcome = match decided {
            Ok(decision) => Outcome::Found(decision.clone()),
            Err(CycleError::Failed(message)) => Outcome::Failed(message.clone()),
            Err(CycleError::NoFit(error)) => scheduler.not_found(error, post_filter.unwrap_or(&Default::default())),
        };
        if let Some(id) = scheduler.keep(attempt, points, snapshot, nominated.clone(), next_start, outcome) {
            kept.lock().insert(pod, id);
        }
    }
}
