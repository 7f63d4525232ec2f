//! One round over a job: the status with every pod counted, and the pods to make or delete.
//!
//! Corresponds to syncJob in pkg/controller/job/job_controller.go.

use super::finish;
use super::indexes;
use super::observe::{FINALIZER, Observed, condition, has_finalizer, is_finished, is_indexed, is_suspended, spec};
use super::pods::{self, Change};
use super::tally::{Tally, count, tally};
use super::verdict::Verdict;
use crate::{actions, clock, pod};
use client::{Action, Patch, Plan};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::batch::v1::{Job, JobCondition, JobStatus, UncountedTerminatedPods};
use proto::kinds::api::core::v1::Pod;
use serde_json::json;

/// The status comes first, then the finalizers that it makes superfluous, then pods go or come.
pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    if !observed.pods.are_complete() {
        return actions::adopt_and_release(&*observed.job, &observed.pods, Some(FINALIZER));
    }
    if is_finished(&observed.job) {
        return Plan::default();
    }
    let first = tally(observed, finish::announced(observed).as_ref());
    let verdict = finish::verdict(observed, &first, now);
    let tally = tally(observed, verdict.as_ref());
    let change = match &verdict {
        // Pods that still run are of no use any more.
        Some(_) if observed.is_caught_up => Change { delete: observed.active(), ..Change::default() },
        Some(_) => Change::default(),
        None => pods::change(observed, &tally, now),
    };
    let mut plan = Plan::default();
    report(observed, &tally, verdict.as_ref(), now, &mut plan);
    plan.actions.extend(tally.to_release.iter().map(|pod| release(pod)));
    if verdict.is_none() {
        // A pod that goes because it is not wanted has not failed: it is not to be counted.
        plan.actions.extend(change.delete.iter().filter(|pod| has_finalizer(pod)).map(|pod| release(pod)));
    }
    plan.actions.extend(change.delete.iter().map(|pod| actions::delete_exactly(&**pod)));
    plan.actions.extend(change.create.iter().map(Action::create));
    let waits = [change.wait, finish::until_deadline(observed, now).filter(|_| verdict.is_none())];
    waits.into_iter().flatten().for_each(|wait| plan.requeue_within(wait));
    plan
}

fn report(observed: &Observed, tally: &Tally, verdict: Option<&Verdict>, now: Timestamp, plan: &mut Plan) {
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
    note_suspension(&job, &mut status, now, &mut events);
    if let Some(verdict) = verdict {
        let (announces, states) = verdict.conditions();
        set_condition(&mut status, announces, "True", &verdict.reason, &verdict.message, now);
        let is_over = active.is_empty() && observed.terminating() == 0 && tally.is_final() && observed.is_caught_up;
        if is_over {
            set_condition(&mut status, states, "True", &verdict.reason, &verdict.message, now);
            let too_many = spec(&job).completions.is_some_and(|completions| tally.succeeded > completions);
            if verdict.is_success && too_many {
                let message = "Too many succeeded pods running after completion count reached";
                events.push(actions::warning(&job, "TooManySucceededPods", message));
            }
            events.push(ending(&job, verdict));
            if verdict.is_success {
                status.completion_time = Some(clock::stamp(now));
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

/// An absent list of uncounted pods is an empty one.
fn is_same(before: &JobStatus, after: &JobStatus) -> bool {
    let mut before = before.clone();
    before.uncounted_terminated_pods.get_or_insert_default();
    before == *after
}

fn ending(job: &Job, verdict: &Verdict) -> Action {
    if verdict.is_success {
        actions::normal(job, "Completed", "Job completed")
    } else {
        actions::warning(job, &verdict.reason, verdict.message.clone())
    }
}

/// A job that is resumed starts its clock again.
fn note_suspension(job: &Job, status: &mut JobStatus, now: Timestamp, events: &mut Vec<Action>) {
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
    let says_so = |present: &JobCondition| {
        present.type_ == type_
            && present.status == value
            && present.reason.as_deref() == Some(reason)
            && present.message.as_deref() == Some(message)
    };
    if conditions.iter().any(says_so) {
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

/// Takes this controller's finalizer off a pod.
pub fn release(pod: &Pod) -> Action {
    let patch = json!({"metadata": {"uid": pod.uid(), "$deleteFromPrimitiveList/finalizers": [FINALIZER]}});
    Action::patch::<Pod>(pod.namespace(), pod.name(), Patch::Strategic(patch))
}
