//! `Tally` counts each terminal pod exactly once, even if the controller is interrupted.
//!
//! Corresponds to trackJobStatusAndRemoveFinalizers in pkg/controller/job/job_controller.go. There are three steps, and
//! each can be repeated. The status lists the uid of a terminal pod as uncounted. Then the pod loses its finalizer.
//! When the cache shows that, the pod moves from the uncounted list to the count.

use super::end::JobEnd;
use super::indexes::{self, Indexes};
use super::observe::{Observed, has_finalizer, is_failed, is_indexed, spec};
use super::policy::{FailureAction, failure_action};
use controller_base::pod;
use proto::Kind;
use proto::kinds::api::batch::v1::JobStatus;
use proto::kinds::api::core::v1::Pod;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Limit on the uids in the uncounted lists. The next round lists the rest.
const MAX_UNCOUNTED: usize = 500;

#[derive(Debug, Default)]
pub struct Tally {
    /// Uids of the uncounted lists.
    pub uncounted_succeeded: Vec<String>,
    pub uncounted_failed: Vec<String>,
    /// Counts of the status.
    pub succeeded: i32,
    pub failed: i32,
    /// Indexes of an Indexed job that have succeeded or failed.
    pub completed: Indexes,
    pub failed_indexes: Indexes,
    /// If the back-off limit is per index: the last failed pod of each index that is to be retried. It keeps its
    /// finalizer until its successor exists, because its annotations have the failures of the index.
    pub to_be_replaced: BTreeMap<i32, Arc<Pod>>,
    /// Number of those pods that count as failed.
    failed_to_be_replaced: usize,
    /// Pods that may lose their finalizer once the status is written.
    pub to_release: Vec<Arc<Pod>>,
    /// Message of the pod failure policy, if it has failed the job.
    pub fail_job: Option<String>,
}

impl Tally {
    /// Returns the number of pods or indexes that succeeded, counted or not.
    pub fn all_succeeded(&self, is_indexed: bool) -> i32 {
        if is_indexed { count(self.completed.len()) } else { self.succeeded + count(self.uncounted_succeeded.len()) }
    }

    /// Returns the number of pods that failed, counted or not.
    pub fn all_failed(&self) -> i32 {
        self.failed + count(self.uncounted_failed.len() + self.failed_to_be_replaced)
    }

    /// Returns true if every terminal pod is counted.
    pub fn is_final(&self) -> bool {
        self.uncounted_succeeded.is_empty() && self.uncounted_failed.is_empty() && self.to_release.is_empty()
    }
}

pub fn count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Counts a job's pods. After its end is decided, active pods count as failed if the job has failed, and not at all if
/// it has succeeded.
pub fn tally(observed: &Observed, end: Option<&JobEnd>) -> Tally {
    let job = &*observed.job;
    let completions = spec(job).completions.unwrap_or(0);
    let status = job.status.clone().unwrap_or_default();
    let mut tally = from_status(&status, completions);
    let with_finalizer: BTreeSet<&str> =
        observed.pods.owned.iter().filter(|pod| has_finalizer(pod)).map(|pod| pod.uid()).collect();
    let uncounted = status.uncounted_terminated_pods.unwrap_or_default();
    for uid in uncounted.succeeded.unwrap_or_default() {
        if with_finalizer.contains(uid.as_str()) { tally.uncounted_succeeded.push(uid) } else { tally.succeeded += 1 }
    }
    for uid in uncounted.failed.unwrap_or_default() {
        if with_finalizer.contains(uid.as_str()) { tally.uncounted_failed.push(uid) } else { tally.failed += 1 }
    }
    tally.record_indexes(observed);
    if end.is_none() && !job.is_deleting() {
        tally.keep_last_failed(observed);
    }
    for pod in &observed.pods.owned {
        tally.add(observed, pod, end);
    }
    if is_indexed(job) {
        tally.succeeded = count(tally.completed.len());
    }
    tally
}

fn from_status(status: &JobStatus, completions: i32) -> Tally {
    let parse = |text: &Option<String>| indexes::parse(text.as_deref().unwrap_or_default(), completions);
    Tally {
        succeeded: status.succeeded.unwrap_or(0),
        failed: status.failed.unwrap_or(0),
        completed: parse(&status.completed_indexes),
        failed_indexes: parse(&status.failed_indexes),
        ..Tally::default()
    }
}

impl Tally {
    /// Records which indexes have succeeded or failed, and whether a failed pod fails the job.
    fn record_indexes(&mut self, observed: &Observed) {
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

    /// Collects the failed pods of indexes that are to be retried.
    fn keep_last_failed(&mut self, observed: &Observed) {
        let job = &*observed.job;
        if spec(job).backoff_limit_per_index.is_none() {
            return;
        }
        let completions = spec(job).completions.unwrap_or(0);
        let running: Indexes = observed.active().iter().filter_map(|pod| indexes::of_pod(pod, completions)).collect();
        for pod in observed.pods.owned.iter().filter(|pod| has_finalizer(pod) && is_failed(job, pod)) {
            let Some(index) = indexes::of_pod(pod, completions) else { continue };
            let is_done = [&self.completed, &self.failed_indexes, &running].iter().any(|all| all.contains(&index));
            let is_uncounted = self.uncounted_failed.iter().any(|uid| uid == pod.uid());
            if is_done || is_uncounted {
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

    /// Adds a terminal pod to an uncounted list, or only releases it if it does not count.
    fn add(&mut self, observed: &Observed, pod: &Arc<Pod>, end: Option<&JobEnd>) {
        let job = &*observed.job;
        let completions = spec(job).completions.unwrap_or(0);
        let index = indexes::of_pod(pod, completions);
        let has_succeeded = pod::phase(pod) == "Succeeded";
        let has_failed = !has_succeeded && (is_failed(job, pod) || end.is_some_and(|end| !end.is_success));
        let is_kept =
            index.and_then(|index| self.to_be_replaced.get(&index)).is_some_and(|kept| kept.uid() == pod.uid());
        if !has_finalizer(pod) || is_kept || !(has_succeeded || has_failed || end.is_some()) {
            return;
        }
        let is_listed = |uids: &[String]| uids.iter().any(|uid| uid == pod.uid());
        // An Indexed job counts successful indexes instead of pods, and no pods without an index.
        let is_uncountable = is_indexed(job) && (has_succeeded || index.is_none());
        let is_ignored =
            has_failed && failure_action(spec(job).pod_failure_policy.as_ref(), pod) == FailureAction::Ignore;
        if is_listed(&self.uncounted_succeeded) || is_listed(&self.uncounted_failed) || is_uncountable || is_ignored {
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
