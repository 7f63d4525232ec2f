//! Which pods a job makes and which it deletes.
//!
//! Corresponds to manageJob in pkg/controller/job/job_controller.go.

use super::backoff;
use super::indexes::{self, COMPLETION_INDEX, INDEX_FAILURE_COUNT, Indexes};
use super::observe::{FINALIZER, Observed, is_indexed, is_suspended, replaces_ended_only, spec};
use super::tally::{Tally, count};
use crate::pod;
use crate::pod_control::BURST;
use crate::pod_template::pod_from_template;
use crate::replicaset::rank;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::batch::v1::Job;
use proto::kinds::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    pub create: Vec<Pod>,
    pub delete: Vec<Arc<Pod>>,
    /// Pods would be made now, were it not for earlier failures.
    pub wait: Option<Duration>,
}

/// How many pods should be active.
fn wanted_active(observed: &Observed, tally: &Tally, active: i32) -> i32 {
    let job = &*observed.job;
    let parallelism = spec(job).parallelism.unwrap_or(1);
    let succeeded = tally.all_succeeded(is_indexed(job));
    match spec(job).completions {
        // A work queue: once one has succeeded the others finish, and none is added.
        None if succeeded > 0 => active,
        None => parallelism,
        Some(completions) => {
            let left = completions - succeeded - count(tally.failed_indexes.len());
            left.min(parallelism).max(0)
        }
    }
}

pub fn change(observed: &Observed, tally: &Tally, now: Timestamp) -> Change {
    let job = &*observed.job;
    let active = observed.active();
    if !observed.is_caught_up || job.is_deleting() {
        return Change::default();
    }
    let have = count(active.len());
    if is_suspended(job) {
        return Change { delete: active.into_iter().take(BURST).collect(), ..Change::default() };
    }
    let wanted = wanted_active(observed, tally, have);
    let delete = surplus(job, &active, tally, (have - wanted).max(0), now);
    if !delete.is_empty() {
        return Change { delete, ..Change::default() };
    }
    let waiting = if replaces_ended_only(job) { count(observed.terminating()) } else { 0 };
    let missing = usize::try_from(wanted - waiting - have).unwrap_or(0).min(BURST);
    if missing == 0 {
        return Change::default();
    }
    let ended = observed.pods.owned.iter().filter(|pod| pod::is_terminal(pod));
    if spec(job).backoff_limit_per_index.is_none()
        && let Some(wait) = backoff::remaining(ended, now)
    {
        return Change { wait: Some(wait), ..Change::default() };
    }
    let create = if is_indexed(job) {
        new_indexed(observed, tally, &active, missing)
    } else {
        std::iter::repeat_with(|| new_pod(job)).take(missing).collect()
    };
    Change { create, ..Change::default() }
}

/// Pods of indexes that are done, out of range or doubled go first; of the rest those that are missed least.
fn surplus(job: &Job, active: &[Arc<Pod>], tally: &Tally, at_least: i32, now: Timestamp) -> Vec<Arc<Pod>> {
    let at_least = usize::try_from(at_least).unwrap_or(0);
    let (mut surplus, mut kept) = (Vec::new(), Vec::new());
    let mut seen = Indexes::new();
    for pod in active {
        let index = indexes::of_pod(pod, spec(job).completions.unwrap_or(0));
        let is_needed = !is_indexed(job)
            || index.is_some_and(|index| {
                !tally.completed.contains(&index) && !tally.failed_indexes.contains(&index) && seen.insert(index)
            });
        if is_needed { kept.push(pod.clone()) } else { surplus.push(pod.clone()) }
    }
    if surplus.len() < at_least {
        surplus.extend(rank::victims(&kept, &kept, at_least - surplus.len(), now));
    }
    surplus.truncate(BURST);
    surplus
}

/// A new pod without index: the server completes its name.
fn new_pod(job: &Job) -> Pod {
    let mut pod = pod_from_template(&spec(job).template, job);
    let finalizers = pod.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    pod
}

fn new_indexed(observed: &Observed, tally: &Tally, active: &[Arc<Pod>], missing: usize) -> Vec<Pod> {
    let job = &*observed.job;
    let completions = spec(job).completions.unwrap_or(0);
    let mut taken: Indexes = active.iter().filter_map(|pod| indexes::of_pod(pod, completions)).collect();
    taken.extend(&tally.completed);
    taken.extend(&tally.failed_indexes);
    if replaces_ended_only(job) {
        let leaving = observed.pods.owned.iter().filter(|pod| pod::is_terminating(pod));
        taken.extend(leaving.filter_map(|pod| indexes::of_pod(pod, completions)));
    }
    indexes::pending(&taken, completions, missing).into_iter().map(|index| indexed_pod(job, tally, index)).collect()
}

fn indexed_pod(job: &Job, tally: &Tally, index: i32) -> Pod {
    let mut pod = new_pod(job);
    pod.metadata.generate_name = Some(format!("{}-{index}-", job.name()));
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(COMPLETION_INDEX.to_owned(), index.to_string());
    if spec(job).backoff_limit_per_index.is_some() {
        let failures = tally.index_failures.get(&index).copied().unwrap_or(0);
        annotations.insert(INDEX_FAILURE_COUNT.to_owned(), failures.to_string());
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

fn index_variable() -> EnvVar {
    let field_ref =
        ObjectFieldSelector { field_path: format!("metadata.labels['{COMPLETION_INDEX}']"), api_version: None };
    EnvVar {
        name: "JOB_COMPLETION_INDEX".to_owned(),
        value: None,
        value_from: Some(EnvVarSource { field_ref: Some(field_ref), ..EnvVarSource::default() }),
    }
}
