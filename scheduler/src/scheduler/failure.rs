//! `Failure`, the reason for which a pod was not scheduled, and what follows.
//!
//! Corresponds to handleSchedulingFailure of pkg/scheduler/schedule_one.go.

use super::{Attempt, Scheduler};
use crate::binding::{self, Evictions};
use crate::metrics::AttemptResult;
use crate::queue::QueuedPod;
use client::{Action, Recorder};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{FitError, Nomination};
use std::collections::BTreeSet;
use std::sync::Arc;

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

/// A pod that is back in the queue, and what is to be written about it.
pub(super) struct FailedPod {
    info: Arc<PodInfo>,
    recorder: Arc<Recorder>,
    actions: Vec<Action>,
    evictions: Evictions,
    /// The name by which the queue holds the pod until its victims are gone.
    preemptor: Option<String>,
    /// The pod, if it stays in flight until the writes are done, and the plugins that rejected it.
    held: Option<(QueuedPod, BTreeSet<&'static str>)>,
}

impl FailedPod {
    pub fn evicts(&self) -> bool {
        !self.evictions.is_empty()
    }
}

impl Scheduler {
    /// Adds the pod to the unschedulable queue, and writes the reason.
    pub(super) async fn handle_failure(&self, attempt: Attempt, failure: Failure) {
        if let Some(failed) = self.fail(attempt, failure) {
            self.write_failure(failed).await;
        }
    }

    /// Adds the pod to the unschedulable queue. The queue holds a pod that evicts others until that is done. A pod that only
    /// frees a claim stays in flight, so that the event that follows counts for it. Returns what is to be written; `None`
    /// if the pod needs no node any more.
    ///
    /// This waits for nothing. So the pods of a gang are all in the queue, or none is, when the next cycle takes some of them.
    pub(super) fn fail(&self, attempt: Attempt, failure: Failure) -> Option<FailedPod> {
        let result = if failure.reason == binding::SCHEDULER_ERROR {
            AttemptResult::Error
        } else {
            AttemptResult::Unschedulable
        };
        self.ended(&attempt, result, &failure.message);
        let Attempt { mut queued, recorder, .. } = attempt;
        let Failure { reason, message, rejected_by, nomination, evictions } = failure;
        if !self.refresh(&mut queued) {
            self.queue.with(|queue, _| queue.done(queued.info.uid()));
            return None;
        }
        let info = queued.info.clone();
        tracing::info!(pod = info.key, message, "unschedulable");
        let nominated = match &nomination {
            Nomination::Keep => info.nominated_node_name(),
            Nomination::Clear => "",
            Nomination::Node(node) => node,
        };
        let preemptor = (!evictions.victims.is_empty()).then(|| self.preemptor(&info));
        let actions = binding::failure_actions(&info, reason, &message, &nomination, self.env.wall());
        let is_queued = evictions.is_empty() || preemptor.is_some();
        let held = self.queue.with(|queue, now| {
            queue.nominated.set(info.clone(), nominated);
            if !is_queued {
                return Some((queued, rejected_by));
            }
            preemptor.iter().for_each(|preemptor| queue.begin_preemption(preemptor));
            queue.add_unschedulable(queued, rejected_by, now);
            None
        });
        Some(FailedPod { info, recorder, actions, evictions: *evictions, preemptor, held })
    }

    /// Writes why the pod has no node, and carries out its preemption.
    pub(super) async fn write_failure(&self, failed: FailedPod) {
        let FailedPod { info, recorder, actions, evictions, preemptor, held } = failed;
        self.apply(&info, &recorder, actions).await;
        let succeeded = evictions.is_empty() || self.carry_out(&info, &recorder, evictions).await;
        self.queue.with(|queue, now| {
            if let Some((queued, rejected_by)) = held {
                queue.add_unschedulable(queued, rejected_by, now);
            }
            preemptor.iter().for_each(|preemptor| queue.end_preemption(preemptor, now));
            if !succeeded {
                queue.force_activate(info.uid()); // no event may follow
            }
        });
    }
}
