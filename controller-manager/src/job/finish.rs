//! Whether a job's end is decided, and how.
//!
//! Corresponds to the finishedCondition of syncJob in pkg/controller/job/job_controller.go.

use super::indexes::Indexes;
use super::observe::{Observed, condition, is_indexed, is_suspended, spec};
use super::policy;
use super::tally::{Tally, count};
use super::verdict::Verdict;
use crate::clock;
use jiff::Timestamp;
use proto::kinds::api::core::v1::Pod;
use std::sync::Arc;
use std::time::Duration;

/// What was announced before, for good.
pub fn announced(observed: &Observed) -> Option<Verdict> {
    let job = &*observed.job;
    let of = |type_: &str, is_success: bool| {
        let condition = condition(job, type_)?;
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Some(Verdict { is_success, reason: text(&condition.reason), message: text(&condition.message) })
    };
    of("FailureTarget", false).or_else(|| of("SuccessCriteriaMet", true))
}

pub fn verdict(observed: &Observed, tally: &Tally, now: Timestamp) -> Option<Verdict> {
    announced(observed).or_else(|| failure(observed, tally, now)).or_else(|| success(observed, tally))
}

fn failure(observed: &Observed, tally: &Tally, now: Timestamp) -> Option<Verdict> {
    let spec = spec(&observed.job);
    if let Some(message) = &tally.fail_job {
        return Verdict::failure("PodFailurePolicy", message.clone());
    }
    let limit = spec.backoff_limit.unwrap_or(6);
    if tally.all_failed() > limit || restarts_exceed(observed, limit) {
        return Verdict::failure("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    }
    if deadline(observed).is_some_and(|deadline| deadline <= now) {
        return Verdict::failure("DeadlineExceeded", "Job was active longer than specified deadline");
    }
    let failed_indexes = count(tally.failed_indexes.len());
    if spec.max_failed_indexes.is_some_and(|max| failed_indexes > max) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Verdict::failure("MaxFailedIndexesExceeded", message);
    }
    let is_exhausted =
        spec.completions.is_some_and(|completions| count(tally.completed.len()) + failed_indexes >= completions);
    if failed_indexes > 0 && is_exhausted {
        return Verdict::failure("FailedIndexes", "Job has failed indexes");
    }
    None
}

/// Containers restarted in place count too, for pods that restart on failure.
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

/// When the job has been active for too long.
fn deadline(observed: &Observed) -> Option<Timestamp> {
    let job = &*observed.job;
    let start = job.status.as_ref()?.start_time.as_ref().filter(|_| !is_suspended(job))?;
    Some(clock::after(start.0, spec(job).active_deadline_seconds?))
}

/// How long until then.
pub fn until_deadline(observed: &Observed, now: Timestamp) -> Option<Duration> {
    deadline(observed).map(|deadline| clock::until(deadline, now).max(clock::TICK))
}

fn success(observed: &Observed, tally: &Tally) -> Option<Verdict> {
    let job = &*observed.job;
    let spec = spec(job);
    let completed: &Indexes = &tally.completed;
    if let (true, Some(policy)) = (is_indexed(job), &spec.success_policy)
        && let Some(message) = policy::is_success(policy, completed, spec.completions.unwrap_or(0))
    {
        return Verdict::success("SuccessPolicy", message);
    }
    let succeeded = tally.all_succeeded(is_indexed(job));
    let is_complete = match spec.completions {
        None => succeeded > 0,
        Some(completions) => succeeded >= completions,
    };
    let is_idle = observed.active().is_empty() && !is_suspended(job);
    if is_complete && is_idle {
        return Verdict::success("CompletionsReached", "Reached expected number of succeeded pods");
    }
    None
}
