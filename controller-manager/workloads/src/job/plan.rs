//! Plans one round over a job: the status, and the pods to create or delete.
//!
//! Corresponds to syncJob in pkg/controller/job/job_controller.go.

use super::end::JobEnd;
use super::finish;
use super::indexes;
use super::observe::{FINALIZER, Observed, condition, has_finalizer, is_finished, is_indexed, is_suspended, spec};
use super::pods::{PodChanges, pod_changes};
use super::tally::{Tally, count, tally};
use client::{Action, Patch, Plan};
use controller_base::{actions, clock, pod};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::batch::v1::{Job, JobCondition, JobStatus, UncountedTerminatedPods};
use proto::kinds::api::core::v1::Pod;
use serde_json::json;

/// Plans the status first, then the removal of finalizers of counted pods, then deletions and creations.
pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    if !observed.pods.are_complete() {
        return actions::adopt_and_release(&*observed.job, &observed.pods, Some(FINALIZER));
    }
    if is_finished(&observed.job) {
        return Plan::default();
    }
    let first = tally(observed, finish::recorded(observed).as_ref());
    let end = finish::decide(observed, &first, now);
    let tally = tally(observed, end.as_ref());
    let changes = match &end {
        // A finished job needs no more active pods.
        Some(_) if observed.are_expectations_satisfied => {
            PodChanges { delete: observed.active(), ..PodChanges::default() }
        }
        Some(_) => PodChanges::default(),
        None => pod_changes(observed, &tally, now),
    };
    let mut plan = Plan::default();
    plan_status(observed, &tally, end.as_ref(), now, &mut plan);
    plan.actions.extend(tally.to_release.iter().map(|pod| release(pod)));
    if end.is_none() {
        // A surplus pod has not failed: without its finalizer it is not counted.
        plan.actions.extend(changes.delete.iter().filter(|pod| has_finalizer(pod)).map(|pod| release(pod)));
    }
    plan.actions.extend(changes.delete.iter().map(|pod| actions::delete_exactly(&**pod)));
    plan.actions.extend(changes.create.iter().map(Action::create));
    let waits = [changes.wait, finish::until_deadline(observed, now).filter(|_| end.is_none())];
    waits.into_iter().flatten().for_each(|wait| plan.requeue_within(wait));
    plan
}

fn plan_status(observed: &Observed, tally: &Tally, end: Option<&JobEnd>, now: Timestamp, plan: &mut Plan) {
    let mut job = (*observed.job).clone();
    let active = observed.active();
    let before = job.status.clone().unwrap_or_default();
    let mut status = JobStatus {
        active: Some(count(active.len())).filter(|count| *count != 0),
        ready: Some(count(active.iter().filter(|pod| pod::is_ready(pod)).count())),
        terminating: Some(count(observed.terminating())),
        succeeded: Some(tally.succeeded).filter(|count| *count != 0),
        failed: Some(tally.failed).filter(|count| *count != 0),
        completed_indexes: is_indexed(&job).then(|| indexes::format(&tally.completed)).filter(|text| !text.is_empty()),
        failed_indexes: spec(&job).backoff_limit_per_index.map(|_| indexes::format(&tally.failed_indexes)),
        uncounted_terminated_pods: Some(UncountedTerminatedPods {
            succeeded: (!tally.uncounted_succeeded.is_empty()).then(|| tally.uncounted_succeeded.clone()),
            failed: (!tally.uncounted_failed.is_empty()).then(|| tally.uncounted_failed.clone()),
        }),
        ..before.clone()
    };
    if status.start_time.is_none() && !is_suspended(&job) {
        status.start_time = Some(clock::stamp(now));
    }
    let mut events = Vec::new();
    record_suspension(&job, &mut status, now, &mut events);
    if let Some(end) = end {
        let (decided, finished) = end.conditions();
        set_condition(&mut status, decided, "True", &end.reason, &end.message, now);
        let is_over =
            active.is_empty() && observed.terminating() == 0 && tally.is_final() && observed.are_expectations_satisfied;
        if is_over {
            set_condition(&mut status, finished, "True", &end.reason, &end.message, now);
            let too_many = spec(&job).completions.is_some_and(|completions| tally.succeeded > completions);
            if end.is_success && too_many {
                let message = "Too many succeeded pods running after completion count reached";
                events.push(actions::warning(&job, "TooManySucceededPods", message));
            }
            events.push(end_event(&job, end));
            if end.is_success {
                status.completion_time = Some(clock::stamp(completion(&status, now)));
            }
        }
    }
    if is_same(&before, &status) {
        return;
    }
    job.status = Some(status);
    plan.push(Action::update_status(&job));
    plan.actions.append(&mut events);
}

/// Returns the time at which a job is complete: now, but not before its start, which the API server would refuse.
///
/// Deviation: a job of Kubernetes whose start was stamped by a clock that was ahead cannot finish until the clock has caught
/// up.
fn completion(status: &JobStatus, now: Timestamp) -> Timestamp {
    status.start_time.as_ref().map_or(now, |start| start.0.max(now))
}

/// Compares two statuses. An absent list of uncounted pods equals an empty one.
fn is_same(before: &JobStatus, after: &JobStatus) -> bool {
    let mut before = before.clone();
    before.uncounted_terminated_pods.get_or_insert_default();
    before == *after
}

fn end_event(job: &Job, end: &JobEnd) -> Action {
    if end.is_success {
        actions::normal(job, "Completed", "Job completed")
    } else {
        actions::warning(job, &end.reason, end.message.clone())
    }
}

/// Records that the job was suspended or resumed. A resumed job gets a new start time.
fn record_suspension(job: &Job, status: &mut JobStatus, now: Timestamp, events: &mut Vec<Action>) {
    let was_suspended = condition(job, "Suspended").is_some();
    if is_suspended(job) && !was_suspended {
        set_condition(status, "Suspended", "True", "JobSuspended", "Job suspended", now);
        events.push(actions::normal(job, "Suspended", "Job suspended"));
    } else if !is_suspended(job) && was_suspended {
        set_condition(status, "Suspended", "False", "JobResumed", "Job resumed", now);
        events.push(actions::normal(job, "Resumed", "Job resumed"));
        status.start_time = Some(clock::stamp(now));
    }
}

fn set_condition(status: &mut JobStatus, type_: &str, value: &str, reason: &str, message: &str, now: Timestamp) {
    let conditions = status.conditions.get_or_insert_default();
    let is_same = |present: &JobCondition| {
        present.type_ == type_
            && present.status == value
            && present.reason.as_deref() == Some(reason)
            && present.message.as_deref() == Some(message)
    };
    if conditions.iter().any(is_same) {
        return;
    }
    conditions.retain(|present| present.type_ != type_);
    conditions.push(JobCondition {
        type_: type_.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(clock::stamp(now)),
        last_transition_time: Some(clock::stamp(now)),
    });
}

/// Removes this controller's finalizer from a pod.
pub fn release(pod: &Pod) -> Action {
    let patch = json!({"metadata": {"uid": pod.uid(), "$deleteFromPrimitiveList/finalizers": [FINALIZER]}});
    Action::patch::<Pod>(pod.namespace(), pod.name(), Patch::Strategic(patch))
}
