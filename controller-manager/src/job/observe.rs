//! What one round over a job looks at, and how its spec reads.
//!
//! Corresponds to getPodsForJob in pkg/controller/job/job_controller.go.

use crate::controller_ref::{Claims, controller_of, owner_key};
use crate::indexes::{PODS_BY_CONTROLLER, orphans_key};
use crate::pod;
use client::Lister;
use proto::Kind;
use proto::kinds::api::batch::v1::{Job, JobCondition, JobSpec};
use proto::kinds::api::core::v1::Pod;
use proto::meta::label_selector;
use std::sync::Arc;

/// On every pod of a job until it is counted, so that none is lost uncounted.
pub const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// The value of `spec.managedBy` that means this controller.
const MANAGER: &str = "kubernetes.io/job-controller";

#[derive(Debug)]
pub struct Observed {
    pub job: Arc<Job>,
    /// Those that ended included.
    pub pods: Claims<Pod>,
    /// Whether the cache shows every pod that this controller made or deleted before.
    pub is_caught_up: bool,
}

/// Nothing if the job is gone or somebody else's to manage.
pub fn observe(key: &str, jobs: &Lister<Job>, pods: &Lister<Pod>, is_caught_up: bool) -> Option<Observed> {
    let job = jobs.by_key(key)?;
    if spec(&job).managed_by.as_deref().is_some_and(|manager| manager != MANAGER) {
        return None;
    }
    let selector = label_selector::from_typed(spec(&job).selector.as_ref()).ok()?;
    let own = pods.by_index(PODS_BY_CONTROLLER, &owner_key(Job::KIND, job.namespace(), job.name()));
    let orphans = pods.by_index(PODS_BY_CONTROLLER, &orphans_key(job.namespace()));
    let pods = Claims::of(&*job, own.into_iter().chain(orphans), |labels| selector.matches(labels));
    Some(Observed { job, pods, is_caught_up })
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

/// Whether a pod that is being deleted is replaced only once it has ended.
pub fn replaces_ended_only(job: &Job) -> bool {
    spec(job).pod_replacement_policy.as_deref() == Some("Failed")
}

/// A pod on its way out will not succeed any more, unless the job waits for its end.
pub fn is_failed(job: &Job, pod: &Pod) -> bool {
    pod::phase(pod) == "Failed" || (pod::is_terminating(pod) && !replaces_ended_only(job))
}

/// The job of a pod by its reference, for waking it.
pub fn is_pod_of_job(pod: &Pod) -> bool {
    controller_of(pod).is_some_and(|owner| owner.kind == Job::KIND)
}
