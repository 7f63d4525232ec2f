//! Decides whether a job has succeeded or failed.
//!
//! Corresponds to the finishedCondition of syncJob in pkg/controller/job/job_controller.go.

use super::end::JobEnd;
use super::indexes::Indexes;
use super::observe::{Observed, condition, is_indexed, is_suspended, spec};
use super::policy;
use super::tally::{Tally, count};
use controller_base::clock;
use jiff::Timestamp;
use proto::kinds::api::core::v1::Pod;
use std::sync::Arc;
use std::time::Duration;

/// Returns the end that an earlier round decided. It is final.
pub fn recorded(observed: &Observed) -> Option<JobEnd> {
    let job = &*observed.job;
    let of = |type_: &str, is_success: bool| {
        let condition = condition(job, type_)?;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Some(JobEnd { is_success, reason: text(&condition.reason), message: text(&condition.message) })
    };
    of("FailureTarget", false).or_else(|| of("SuccessCriteriaMet", true))
}

pub fn decide(observed: &Observed, tally: &Tally, now: Timestamp) -> Option<JobEnd> {
    recorded(observed).or_else(|| failure(observed, tally, now)).or_else(|| success(observed, tally))
}

fn failure(observed: &Observed, tally: &Tally, now: Timestamp) -> Option<JobEnd> {
    let spec = spec(&observed.job);
    if let Some(message) = &tally.fail_job {
        return JobEnd::failure("PodFailurePolicy", message.clone());
    }
    let limit = spec.backoff_limit.unwrap_or(6);
    if tally.all_failed() > limit || restarts_exceed(observed, limit) {
        return JobEnd::failure("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    }
    if deadline(observed).is_some_and(|deadline| deadline <= now) {
        return JobEnd::failure("DeadlineExceeded", "Job was active longer than specified deadline");
    }
    let failed_indexes = count(tally.failed_indexes.len());
    if spec.max_failed_indexes.is_some_and(|max| failed_indexes > max) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return JobEnd::failure("MaxFailedIndexesExceeded", message);
    }
    let is_exhausted =
        spec.completions.is_some_and(|completions| count(tally.completed.len()) + failed_indexes >= completions);
    if failed_indexes > 0 && is_exhausted {
        return JobEnd::failure("FailedIndexes", "Job has failed indexes");
    }
    None
}

/// Returns true if the restarts of containers exceed the back-off limit, for pods with restart policy OnFailure.
fn restarts_exceed(observed: &Observed, limit: i32) -> bool {
    let spec = spec(&observed.job);
    let policy = spec.template.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref());
    if policy != Some("OnFailure") {
        return false;
    }
    let restarts: i32 = observed.active().iter().map(restarts).sum();
    if limit == 0 { restarts > 0 } else { restarts >= limit }
}

fn restarts(pod: &Arc<Pod>) -> i32 {
    let status = pod.status.iter();
    let containers = status.flat_map(|status| {
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
    });
    containers.map(|container| container.restart_count).sum()
}

/// Returns the time at which the job exceeds `activeDeadlineSeconds`.
fn deadline(observed: &Observed) -> Option<Timestamp> {
    let job = &*observed.job;
    let start = job.status.as_ref()?.start_time.as_ref().filter(|_| !is_suspended(job))?;
    Some(clock::after(start.0, spec(job).active_deadline_seconds?))
}

/// Returns the time until that deadline.
pub fn until_deadline(observed: &Observed, now: Timestamp) -> Option<Duration> {
    deadline(observed).map(|deadline| clock::until(deadline, now).max(clock::TICK))
}

fn success(observed: &Observed, tally: &Tally) -> Option<JobEnd> {
    let job = &*observed.job;
    let spec = spec(job);
    let completed: &Indexes = &tally.completed;
    if let (true, Some(policy)) = (is_indexed(job), &spec.success_policy)
        && let Some(message) = policy::success_message(policy, completed, spec.completions.unwrap_or(0))
    {
        return JobEnd::success("SuccessPolicy", message);
    }
    let succeeded = tally.all_succeeded(is_indexed(job));
    let is_complete = match spec.completions {
        None => succeeded > 0,
        Some(completions) => succeeded >= completions,
    };
    let is_idle = observed.active().is_empty() && !is_suspended(job);
    if is_complete && is_idle {
        return JobEnd::success("CompletionsReached", "Reached expected number of succeeded pods");
    }
    None
}
