//! Decides which pods a job creates and deletes.
//!
//! Corresponds to manageJob in pkg/controller/job/job_controller.go.

use super::backoff;
use super::indexes::{self, COMPLETION_INDEX, Failures, Indexes};
use super::observe::{FINALIZER, Observed, is_failed, is_indexed, is_suspended, replaces_terminal_only, spec};
use super::policy::{FailureAction, failure_action};
use super::tally::{Tally, count};
use crate::replicaset::rank;
use controller_base::pod;
use controller_base::pod_control::BURST;
use controller_base::pod_template::pod_from_template;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::batch::v1::Job;
use proto::kinds::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The number of characters of `generateName` that the server keeps before it adds five.
const MAX_NAME_PREFIX: usize = 58;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodChanges {
    pub create: Vec<Pod>,
    pub delete: Vec<Arc<Pod>>,
    /// Remaining back-off of pods that would be created now if none had failed.
    pub wait: Option<Duration>,
}

/// Returns the wanted number of active pods.
fn wanted_active(observed: &Observed, tally: &Tally, active: i32) -> i32 {
    let job = &*observed.job;
    let parallelism = spec(job).parallelism.unwrap_or(1);
    let succeeded = tally.all_succeeded(is_indexed(job));
    match spec(job).completions {
        // A job without completions is a work queue. After the first success, the other pods finish and none is added.
        None if succeeded > 0 => active,
        None => parallelism,
        Some(completions) => {
            let left = completions - succeeded - count(tally.failed_indexes.len());
            left.min(parallelism).max(0)
        }
    }
}

pub fn pod_changes(observed: &Observed, tally: &Tally, now: Timestamp) -> PodChanges {
    let job = &*observed.job;
    let active = observed.active();
    if !observed.are_expectations_satisfied || job.is_deleting() {
        return PodChanges::default();
    }
    let have = count(active.len());
    if is_suspended(job) {
        return PodChanges { delete: active.into_iter().take(BURST).collect(), ..PodChanges::default() };
    }
    let wanted = wanted_active(observed, tally, have);
    let delete = surplus(job, &active, tally, (have - wanted).max(0), now);
    if !delete.is_empty() {
        return PodChanges { delete, ..PodChanges::default() };
    }
    let waiting = if replaces_terminal_only(job) { count(observed.terminating()) } else { 0 };
    let missing = usize::try_from(wanted - waiting - have).unwrap_or(0).min(BURST);
    if missing == 0 {
        return PodChanges::default();
    }
    if is_indexed(job) {
        return new_indexed(observed, tally, &active, missing, now);
    }
    match job_backoff(observed, now) {
        Some(wait) => PodChanges { wait: Some(wait), ..PodChanges::default() },
        None => PodChanges {
            create: std::iter::repeat_with(|| new_pod(job)).take(missing).collect(),
            ..PodChanges::default()
        },
    }
}

/// Returns the back-off that delays all new pods of a job.
fn job_backoff(observed: &Observed, now: Timestamp) -> Option<Duration> {
    let has_ended = |pod: &&Arc<Pod>| pod::phase(pod) == "Succeeded" || is_failed(&observed.job, pod);
    backoff::remaining(observed.pods.owned.iter().filter(has_ended), now)
}

/// Returns the pods to delete: those whose index is done, out of range or used twice, and then as many more as
/// `at_least` asks for.
fn surplus(job: &Job, active: &[Arc<Pod>], tally: &Tally, at_least: i32, now: Timestamp) -> Vec<Arc<Pod>> {
    let at_least = usize::try_from(at_least).unwrap_or(0);
    let mut by_index: BTreeMap<Option<i32>, Vec<Arc<Pod>>> = BTreeMap::new();
    for pod in active {
        let index = indexes::of_pod(pod, spec(job).completions.unwrap_or(0)).filter(|_| is_indexed(job));
        by_index.entry(index).or_default().push(pod.clone());
    }
    let (mut surplus, mut kept) = (Vec::new(), Vec::new());
    for (index, mut pods) in by_index {
        match index {
            None if !is_indexed(job) => kept.append(&mut pods),
            Some(index) if !tally.completed.contains(&index) && !tally.failed_indexes.contains(&index) => {
                let duplicates = rank::pods_to_delete(&pods, &[], pods.len() - 1, now);
                kept.extend(pods.into_iter().filter(|pod| !duplicates.iter().any(|other| other.uid() == pod.uid())));
                surplus.extend(duplicates);
            }
            _ => surplus.append(&mut pods),
        }
    }
    if surplus.len() < at_least {
        surplus.extend(rank::pods_to_delete(&kept, &[], at_least - surplus.len(), now));
    }
    surplus.truncate(BURST);
    surplus
}

/// Returns a new pod without an index. The server completes its name.
fn new_pod(job: &Job) -> Pod {
    let mut pod = pod_from_template(&spec(job).template, job);
    let finalizers = pod.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    pod
}

fn new_indexed(observed: &Observed, tally: &Tally, active: &[Arc<Pod>], missing: usize, now: Timestamp) -> PodChanges {
    let job = &*observed.job;
    let completions = spec(job).completions.unwrap_or(0);
    let mut taken: Indexes = active.iter().filter_map(|pod| indexes::of_pod(pod, completions)).collect();
    taken.extend(&tally.completed);
    taken.extend(&tally.failed_indexes);
    if replaces_terminal_only(job) {
        let terminating = observed.pods.owned.iter().filter(|pod| pod::is_terminating(pod));
        taken.extend(terminating.filter_map(|pod| indexes::of_pod(pod, completions)));
    }
    let pending = indexes::pending(&taken, completions, missing);
    // A failure delays its own index if the back-off limit is per index, or else all.
    let is_per_index = spec(job).backoff_limit_per_index.is_some();
    let shared = if is_per_index { None } else { job_backoff(observed, now) };
    let wait_of = |index: &i32| {
        let Some(failed) = tally.to_be_replaced.get(index).filter(|_| is_per_index) else { return shared };
        backoff::after(indexes::failures(failed).all().saturating_add(1), backoff::finished_at(failed), now)
    };
    let (due, delayed): (Vec<i32>, Vec<i32>) = pending.iter().partition(|index| wait_of(index).is_none());
    PodChanges {
        wait: delayed.iter().filter_map(wait_of).min(),
        create: due.into_iter().map(|index| indexed_pod(job, tally, index)).collect(),
        ..PodChanges::default()
    }
}

fn indexed_pod(job: &Job, tally: &Tally, index: i32) -> Pod {
    let mut pod = new_pod(job);
    pod.metadata.generate_name = Some(indexed_name_prefix(job.name(), index));
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(COMPLETION_INDEX.to_owned(), index.to_string());
    if spec(job).backoff_limit_per_index.is_some() {
        failures_after(job, tally.to_be_replaced.get(&index).map(|pod| &**pod)).annotate(&mut pod);
    }
    pod.metadata.labels.get_or_insert_default().insert(COMPLETION_INDEX.to_owned(), index.to_string());
    if let Some(spec) = &mut pod.spec {
        spec.hostname = Some(format!("{}-{index}", job.name()));
        let init = spec.init_containers.iter_mut().flatten();
        for container in init.chain(spec.containers.iter_mut()) {
            let env = container.env.get_or_insert_default();
            if !env.iter().any(|variable| variable.name == "JOB_COMPLETION_INDEX") {
                env.push(index_variable());
            }
        }
    }
    pod
}

/// Returns the failures of an index, including that of the pod to be replaced.
fn failures_after(job: &Job, replaced: Option<&Pod>) -> Failures {
    let Some(replaced) = replaced else { return Failures::default() };
    let before = indexes::failures(replaced);
    if failure_action(spec(job).pod_failure_policy.as_ref(), replaced) == FailureAction::Ignore {
        Failures { ignored: before.ignored.saturating_add(1), ..before }
    } else {
        Failures { counted: before.counted.saturating_add(1), ..before }
    }
}

/// Cuts the job's name, so that the server, which cuts long prefixes, keeps the index.
fn indexed_name_prefix(job: &str, index: i32) -> String {
    let suffix = format!("-{index}-");
    let room = MAX_NAME_PREFIX.saturating_sub(suffix.len());
    format!("{}{suffix}", &job[..job.len().min(room)])
}

fn index_variable() -> EnvVar {
    let field_ref =
        ObjectFieldSelector { field_path: format!("metadata.labels['{COMPLETION_INDEX}']"), api_version: None };
    EnvVar {
        name: "JOB_COMPLETION_INDEX".to_owned(),
        value: None,
        value_from: Some(EnvVarSource { field_ref: Some(field_ref), ..EnvVarSource::default() }),
    }
}
