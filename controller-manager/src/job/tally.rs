//! Counts pods that ended, each exactly once, however often this is interrupted.
//!
//! Corresponds to trackJobStatusAndRemoveFinalizers in pkg/controller/job/job_controller.go. Three steps, each of which
//! can be repeated: a pod that ended is noted by uid in the status; then its finalizer is taken off; then, seen
//! without it, it moves from the notes to the count.

use super::indexes::{self, Indexes};
use super::observe::{Observed, has_finalizer, is_failed, is_indexed, spec};
use super::policy::{FailureAction, failure_action};
use super::verdict::Verdict;
use crate::pod;
use proto::Kind;
use proto::kinds::api::batch::v1::JobStatus;
use proto::kinds::api::core::v1::Pod;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Uids that one status may note; the rest comes in the next round.
const MAX_UNCOUNTED: usize = 500;

#[derive(Debug, Default)]
pub struct Tally {
    /// Noted, not counted yet.
    pub uncounted_succeeded: Vec<String>,
    pub uncounted_failed: Vec<String>,
    /// Counted.
    pub succeeded: i32,
    pub failed: i32,
    /// Of an Indexed job.
    pub completed: Indexes,
    pub failed_indexes: Indexes,
    /// Where failures are limited per index: the last failed pod of each index that is to be tried again. It is kept,
    /// uncounted, until its successor is there, because it knows how often the index has failed.
    pub to_be_replaced: BTreeMap<i32, Arc<Pod>>,
    /// Those of them that count as failed.
    failed_to_be_replaced: usize,
    /// Pods that may lose their finalizer once the status is written.
    pub to_release: Vec<Arc<Pod>>,
    /// Why the pod failure policy says that the job has failed.
    pub fail_job: Option<String>,
}

impl Tally {
    /// All that succeeded, noted or counted.
    pub fn all_succeeded(&self, is_indexed: bool) -> i32 {
        if is_indexed { count(self.completed.len()) } else { self.succeeded + count(self.uncounted_succeeded.len()) }
    }

    /// All that failed, noted, counted or kept.
    pub fn all_failed(&self) -> i32 {
        self.failed + count(self.uncounted_failed.len() + self.failed_to_be_replaced)
    }

    /// Whether every pod that ended is counted.
    pub fn is_final(&self) -> bool {
        self.uncounted_succeeded.is_empty() && self.uncounted_failed.is_empty() && self.to_release.is_empty()
    }
}

pub fn count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// `verdict`: the job's end is decided. Pods that still run then count as failed if the job has, and not at all if it
/// has succeeded without them.
pub fn tally(observed: &Observed, verdict: Option<&Verdict>) -> Tally {
    let job = &*observed.job;
    let completions = spec(job).completions.unwrap_or(0);
    let status = job.status.clone().unwrap_or_default();
    let mut tally = start(&status, completions);
    let with_finalizer: BTreeSet<&str> =
        observed.pods.owned.iter().filter(|pod| has_finalizer(pod)).map(|pod| pod.uid()).collect();
    let uncounted = status.uncounted_terminated_pods.unwrap_or_default();
    for uid in uncounted.succeeded.unwrap_or_default() {
        if with_finalizer.contains(uid.as_str()) { tally.uncounted_succeeded.push(uid) } else { tally.succeeded += 1 }
    }
    for uid in uncounted.failed.unwrap_or_default() {
        if with_finalizer.contains(uid.as_str()) { tally.uncounted_failed.push(uid) } else { tally.failed += 1 }
    }
    tally.note_indexes(observed);
    if verdict.is_none() && !job.is_deleting() {
        tally.keep_last_failed(observed);
    }
    for pod in &observed.pods.owned {
        tally.note(observed, pod, verdict);
    }
    if is_indexed(job) {
        tally.succeeded = count(tally.completed.len());
    }
    tally
}

fn start(status: &JobStatus, completions: i32) -> Tally {
    let read = |text: &Option<String>| indexes::parse(text.as_deref().unwrap_or_default(), completions);
    Tally {
        succeeded: status.succeeded.unwrap_or(0),
        failed: status.failed.unwrap_or(0),
        completed: read(&status.completed_indexes),
        failed_indexes: read(&status.failed_indexes),
        ..Tally::default()
    }
}

impl Tally {
    /// Which indexes are done and which are given up, and whether a failed pod ends the whole job.
    fn note_indexes(&mut self, observed: &Observed) {
        let job = &*observed.job;
        let spec = spec(job);
        let completions = spec.completions.unwrap_or(0);
        for pod in &observed.pods.owned {
            let index = indexes::of_pod(pod, completions).filter(|_| is_indexed(job));
            if pod::phase(pod) == "Succeeded" && has_finalizer(pod) {
                self.completed.extend(index);
            }
            if !is_failed(job, pod) {
                continue;
            }
            let action = failure_action(spec.pod_failure_policy.as_ref(), pod);
            if let FailureAction::FailJob(message) = &action {
                self.fail_job.get_or_insert_with(|| message.clone());
            }
            let (Some(limit), Some(index)) = (spec.backoff_limit_per_index, index) else { continue };
            let is_over_limit = action != FailureAction::Ignore && indexes::failures(pod).counted >= limit;
            if is_over_limit || action == FailureAction::FailIndex {
                self.failed_indexes.insert(index);
            }
        }
        let done = &self.completed;
        self.failed_indexes.retain(|index| !done.contains(index));
    }

    fn keep_last_failed(&mut self, observed: &Observed) {
        let job = &*observed.job;
        if spec(job).backoff_limit_per_index.is_none() {
            return;
        }
        let completions = spec(job).completions.unwrap_or(0);
        let running: Indexes = observed.active().iter().filter_map(|pod| indexes::of_pod(pod, completions)).collect();
        for pod in observed.pods.owned.iter().filter(|pod| has_finalizer(pod) && is_failed(job, pod)) {
            let Some(index) = indexes::of_pod(pod, completions) else { continue };
            let is_settled = [&self.completed, &self.failed_indexes, &running].iter().any(|all| all.contains(&index));
            let is_noted = self.uncounted_failed.iter().any(|uid| uid == pod.uid());
            if is_settled || is_noted {
                continue;
            }
            let known = self.to_be_replaced.entry(index).or_insert_with(|| pod.clone());
            if indexes::failures(known).all() <= indexes::failures(pod).all() {
                *known = pod.clone();
            }
        }
        let counts =
            |pod: &&Arc<Pod>| failure_action(spec(job).pod_failure_policy.as_ref(), pod) != FailureAction::Ignore;
        self.failed_to_be_replaced = self.to_be_replaced.values().filter(counts).count();
    }

    fn note(&mut self, observed: &Observed, pod: &Arc<Pod>, verdict: Option<&Verdict>) {
        let job = &*observed.job;
        let completions = spec(job).completions.unwrap_or(0);
        let index = indexes::of_pod(pod, completions);
        let has_succeeded = pod::phase(pod) == "Succeeded";
        let has_failed = !has_succeeded && (is_failed(job, pod) || verdict.is_some_and(|verdict| !verdict.is_success));
        let is_kept =
            index.and_then(|index| self.to_be_replaced.get(&index)).is_some_and(|kept| kept.uid() == pod.uid());
        if !has_finalizer(pod) || is_kept || !(has_succeeded || has_failed || verdict.is_some()) {
            return;
        }
        let is_noted = |noted: &[String]| noted.iter().any(|uid| uid == pod.uid());
        // Of an Indexed job, the index says what has succeeded; a pod without one belongs to nobody's count.
        let is_uncountable = is_indexed(job) && (has_succeeded || index.is_none());
        let is_ignored =
            has_failed && failure_action(spec(job).pod_failure_policy.as_ref(), pod) == FailureAction::Ignore;
        if is_noted(&self.uncounted_succeeded) || is_noted(&self.uncounted_failed) || is_uncountable || is_ignored {
            self.to_release.push(pod.clone());
            return;
        }
        if self.uncounted_succeeded.len() + self.uncounted_failed.len() >= MAX_UNCOUNTED {
            return;
        }
        if has_succeeded {
            self.uncounted_succeeded.push(pod.uid().to_owned());
        } else if has_failed {
            self.uncounted_failed.push(pod.uid().to_owned());
        }
        self.to_release.push(pod.clone());
    }
}
