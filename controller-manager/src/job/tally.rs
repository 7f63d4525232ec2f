//! Counts pods that ended, each exactly once, however often this is interrupted.
//!
//! Corresponds to trackJobStatusAndRemoveFinalizers in pkg/controller/job/job_controller.go. Three steps, each of which
//! can be repeated: a pod that ended is noted by uid in the status; then its finalizer is taken off; then, seen
//! without it, it moves from the notes to the count.

use super::indexes::{self, INDEX_FAILURE_COUNT, Indexes};
use super::observe::{Observed, has_finalizer, is_failed, is_indexed, spec};
use super::policy::{FailureAction, failure_action};
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
    /// Failures of each index so far, where they are limited per index.
    pub index_failures: BTreeMap<i32, i32>,
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

    pub fn all_failed(&self) -> i32 {
        self.failed + count(self.uncounted_failed.len())
    }

    /// Whether every pod that ended is counted.
    pub fn is_final(&self) -> bool {
        self.uncounted_succeeded.is_empty() && self.uncounted_failed.is_empty() && self.to_release.is_empty()
    }
}

pub fn count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// `is_finishing`: the job's end is decided, so that pods that still run count as failed when they are deleted.
pub fn tally(observed: &Observed, is_finishing: bool) -> Tally {
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
    for pod in &observed.pods.owned {
        tally.note(observed, pod, completions, is_finishing);
    }
    if is_indexed(job) {
        tally.succeeded = count(tally.completed.len());
        tally.failed_indexes = tally.failed_indexes.difference(&tally.completed).copied().collect();
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
    fn note(&mut self, observed: &Observed, pod: &Arc<Pod>, completions: i32, is_finishing: bool) {
        let job = &*observed.job;
        let has_succeeded = pod::phase(pod) == "Succeeded";
        let has_failed = is_failed(job, pod) || (is_finishing && pod::is_terminating(pod));
        let index = indexes::of_pod(pod, completions);
        if has_failed {
            self.note_failure(observed, pod, index);
        }
        if !has_finalizer(pod) || !(has_succeeded || has_failed) {
            return;
        }
        let is_noted = |noted: &[String]| noted.iter().any(|uid| uid == pod.uid());
        if is_noted(&self.uncounted_succeeded) || is_noted(&self.uncounted_failed) {
            self.to_release.push(pod.clone());
            return;
        }
        if has_succeeded && is_indexed(job) {
            // The index says that it is counted; a pod without one belongs to nobody's count.
            self.completed.extend(index);
            self.to_release.push(pod.clone());
            return;
        }
        if self.uncounted_succeeded.len() + self.uncounted_failed.len() >= MAX_UNCOUNTED {
            return;
        }
        if has_succeeded {
            self.uncounted_succeeded.push(pod.uid().to_owned());
        } else if failure_action(spec(job).pod_failure_policy.as_ref(), pod) != FailureAction::Ignore {
            self.uncounted_failed.push(pod.uid().to_owned());
        }
        self.to_release.push(pod.clone());
    }

    /// What a failed pod means for its index and for the whole job.
    fn note_failure(&mut self, observed: &Observed, pod: &Pod, index: Option<i32>) {
        let spec = spec(&observed.job);
        let action = failure_action(spec.pod_failure_policy.as_ref(), pod);
        if let FailureAction::FailJob(message) = &action {
            self.fail_job.get_or_insert_with(|| message.clone());
        }
        let (Some(limit), Some(index)) = (spec.backoff_limit_per_index, index) else { return };
        let annotations = pod.metadata.annotations.as_ref();
        let before =
            annotations.and_then(|all| all.get(INDEX_FAILURE_COUNT)).and_then(|text| text.parse().ok()).unwrap_or(0);
        let failures = before + i32::from(action != FailureAction::Ignore);
        let known = self.index_failures.entry(index).or_insert(failures);
        *known = failures.max(*known);
        if failures > limit || action == FailureAction::FailIndex {
            self.failed_indexes.insert(index);
        }
    }
}
