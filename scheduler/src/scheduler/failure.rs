//! `Failure`, the reason for which a pod was not scheduled, and what follows.
//!
//! Corresponds to handleSchedulingFailure of pkg/scheduler/schedule_one.go.

use super::{Attempt, Scheduler};
use crate::binding::{self, Evictions};
use crate::metrics::AttemptResult;
use scheduling_framework::{FitError, Nomination};
use std::collections::BTreeSet;

/// The reason for which a pod was not scheduled, and the preemption that follows.
pub(super) struct Failure {
    pub reason: &'static str,
    pub message: String,
    /// The plugins that rejected the pod. Empty after an error: then it is tried again after its back-off.
    pub rejected_by: BTreeSet<&'static str>,
    pub nomination: Nomination,
    pub evictions: Box<Evictions>,
}

impl Failure {
    pub fn unschedulable(error: &FitError) -> Self {
        Self {
            reason: binding::UNSCHEDULABLE,
            message: error.to_string(),
            rejected_by: error.plugins(),
            nomination: Nomination::Clear,
            evictions: Box::default(),
        }
    }

    /// Returns the failure that an error causes.
    pub fn because(message: &str) -> Self {
        Self {
            reason: binding::SCHEDULER_ERROR,
            message: message.to_owned(),
            rejected_by: BTreeSet::new(),
            nomination: Nomination::Clear,
            evictions: Box::default(),
        }
    }
}

impl Scheduler {
    /// Adds the pod to the unschedulable queue, and writes the reason. The queue holds a pod that evicts others until that is
    /// done. A pod that only frees a claim stays in flight, so that the event that follows counts for it.
    pub(super) async fn handle_failure(&self, attempt: Attempt, failure: Failure) {
        let result = if failure.reason == binding::SCHEDULER_ERROR {
            AttemptResult::Error
        } else {
            AttemptResult::Unschedulable
        };
        self.ended(&attempt, result, &failure.message);
        let Attempt { mut queued, recorder, .. } = attempt;
        let Failure { reason, message, rejected_by, nomination, evictions } = failure;
        let uid = queued.info.uid().to_owned();
        if !self.refresh(&mut queued) {
            return self.queue.with(|queue, _| queue.done(&uid));
        }
        let info = queued.info.clone();
        tracing::info!(pod = info.key, message, "unschedulable");
        let nominated = match &nomination {
            Nomination::Keep => info.nominated_node_name(),
            Nomination::Clear => "",
            Nomination::Node(node) => node,
        };
        self.queue.with(|queue, _| queue.nominated.set(info.clone(), nominated));
        let preemptor = (!evictions.victims.is_empty()).then(|| self.preemptor(&info));
        let actions = binding::failure_actions(&info, reason, &message, &nomination, self.env.wall());
        let is_queued = evictions.is_empty() || preemptor.is_some();
        let queued = match is_queued {
            false => Some((queued, rejected_by)),
            true => {
                self.queue.with(|queue, now| {
                    preemptor.iter().for_each(|preemptor| queue.begin_preemption(preemptor));
                    queue.add_unschedulable(queued, rejected_by, now);
                });
                None
            }
        };
        self.apply(&info, &recorder, actions).await;
        let succeeded = evictions.is_empty() || self.carry_out(&info, &recorder, *evictions).await;
        self.queue.with(|queue, now| {
            if let Some((queued, rejected_by)) = queued {
                queue.add_unschedulable(queued, rejected_by, now);
            }
            preemptor.iter().for_each(|preemptor| queue.end_preemption(preemptor, now));
            if !succeeded {
                queue.force_activate(&uid); // no event may follow
            }
        });
    }
}
