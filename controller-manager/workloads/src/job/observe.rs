//! `Observed`, the objects that one round over a job reads, and functions that read a job's spec.
//!
//! Corresponds to getPodsForJob in pkg/controller/job/job_controller.go.

use client::Lister;
use controller_base::controller_ref::{Claims, controller_of, owner_key};
use controller_base::indexes::{PODS_BY_CONTROLLER, orphans_key};
use controller_base::pod;
use proto::Kind;
use proto::kinds::api::batch::v1::{Job, JobCondition, JobSpec};
use proto::kinds::api::core::v1::Pod;
use proto::meta::label_selector;
use std::sync::Arc;

/// Finalizer on every pod of a job until the status counts the pod.
pub const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// The value of `spec.managedBy` that means this controller.
pub const MANAGER: &str = "kubernetes.io/job-controller";

#[derive(Debug)]
pub struct Observed {
    pub job: Arc<Job>,
    /// The job's pods, including terminal ones.
    pub pods: Claims<Pod>,
    /// True if the cache shows this controller's earlier creations and deletions.
    pub are_expectations_satisfied: bool,
}

/// Reads the caches; `None` if the job does not exist or another controller manages it.
pub fn observe(
    key: &str,
    jobs: &Lister<Job>,
    pods: &Lister<Pod>,
    are_expectations_satisfied: bool,
) -> Option<Observed> {
    let job = jobs.by_key(key)?;
    if spec(&job).managed_by.as_deref().is_some_and(|manager| manager != MANAGER) {
        return None;
    }
    let selector = label_selector::from_typed(spec(&job).selector.as_ref()).ok()?;
    let own = pods.by_index(PODS_BY_CONTROLLER, &owner_key(Job::KIND, job.namespace(), job.name()));
    let orphans = pods.by_index(PODS_BY_CONTROLLER, &orphans_key(job.namespace()));
    let pods = Claims::of(&*job, own.into_iter().chain(orphans), |labels| selector.matches(labels));
    Some(Observed { job, pods, are_expectations_satisfied })
}

impl Observed {
    pub fn active(&self) -> Vec<Arc<Pod>> {
        self.pods.owned.iter().filter(|pod| pod::is_active(pod)).cloned().collect()
    }

    pub fn terminating(&self) -> usize {
        self.pods.owned.iter().filter(|pod| pod::is_terminating(pod)).count()
    }
}

pub fn spec(job: &Job) -> &JobSpec {
    job.spec.as_ref().expect("validation requires a job's spec")
}

pub fn is_indexed(job: &Job) -> bool {
    spec(job).completion_mode.as_deref() == Some("Indexed")
}

pub fn is_suspended(job: &Job) -> bool {
    spec(job).suspend.unwrap_or(false)
}

pub fn condition<'a>(job: &'a Job, type_: &str) -> Option<&'a JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_ && condition.status == "True")
}

pub fn is_finished(job: &Job) -> bool {
    condition(job, "Complete").or_else(|| condition(job, "Failed")).is_some()
}

pub fn has_finalizer(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

/// Returns true if a pod that is being deleted is replaced only after it has ended.
pub fn replaces_terminal_only(job: &Job) -> bool {
    spec(job).pod_replacement_policy.as_deref() == Some("Failed")
}

/// Returns true if a pod has failed. A terminating pod counts as failed unless the job waits for its end.
pub fn is_failed(job: &Job, pod: &Pod) -> bool {
    pod::phase(pod) == "Failed" || (pod::is_terminating(pod) && !replaces_terminal_only(job))
}

/// Returns true if the controller of a pod is a job.
pub fn is_pod_of_job(pod: &Pod) -> bool {
    controller_of(pod).is_some_and(|owner| owner.kind == Job::KIND)
}
