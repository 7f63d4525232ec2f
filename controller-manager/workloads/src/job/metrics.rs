//! `JobMetrics`: rounds of jobs and how long they take, jobs that ended, and pods that were counted.
//!
//! Corresponds to pkg/controller/job/metrics.

use super::observe::{condition, is_indexed};
use client::{Action, Plan};
use component_base::env::Env;
use component_base::metrics::{Counters, Histograms, Labels, exponential};
use proto::Kind;
use proto::kinds::api::batch::v1::Job;
use std::time::Duration;

const SECONDS: &[f64] = &exponential::<15>(0.004, 2.0);

#[derive(Clone, Debug)]
pub struct JobMetrics {
    rounds: Counters,
    durations: Histograms,
    ended: Counters,
    pods: Counters,
}

impl JobMetrics {
    pub fn new(env: &Env) -> Self {
        let metrics = env.metrics();
        Self {
            rounds: metrics.counters("job_controller_job_syncs_total", "The number of job syncs"),
            durations: metrics.histograms(
                "job_controller_job_sync_duration_seconds",
                "The time it took to sync a job",
                SECONDS,
            ),
            ended: metrics.counters("job_controller_jobs_finished_total", "The number of finished jobs"),
            pods: metrics.counters(
                "job_controller_job_pods_finished_total",
                "The number of finished Pods that are fully tracked",
            ),
        }
    }

    /// Counts a round that has been carried out, and what its new status says for the first time.
    pub fn count_round(&self, job: &Job, plan: &Plan, duration: Duration, has_failed: bool) {
        let result = if has_failed { "error" } else { "success" };
        let labels = vec![("action", action(plan).to_owned()), mode(job), ("result", result.to_owned())];
        self.rounds.get_or_create(&labels).inc();
        self.durations.get_or_create(&labels).observe(duration.as_secs_f64());
        let written = plan.actions.iter().filter_map(written_job);
        for now in written.filter(|_| !has_failed) {
            let (before, after) = (job.status.clone().unwrap_or_default(), now.status.clone().unwrap_or_default());
            self.count_pods(job, "succeeded", counted(before.succeeded, after.succeeded));
            self.count_pods(job, "failed", counted(before.failed, after.failed));
            if let Some((result, reason)) = end(&now).filter(|_| end(job).is_none()) {
                let labels = vec![mode(job), ("reason", reason), ("result", result.to_owned())];
                self.ended.get_or_create(&labels).inc();
            }
        }
    }

    fn count_pods(&self, job: &Job, result: &str, pods: u64) {
        if pods > 0 {
            let labels: Labels = vec![mode(job), ("result", result.to_owned())];
            self.pods.get_or_create(&labels).inc_by(pods);
        }
    }
}

fn mode(job: &Job) -> (&'static str, String) {
    ("completion_mode", if is_indexed(job) { "Indexed" } else { "NonIndexed" }.to_owned())
}

fn counted(before: Option<i32>, after: Option<i32>) -> u64 {
    (after.unwrap_or(0) - before.unwrap_or(0)).try_into().unwrap_or(0)
}

fn written_job(action: &Action) -> Option<Job> {
    let Action::UpdateStatus { object, .. } = action else { return None };
    Job::decode_value(object.clone()).ok()
}

/// Returns the result and the reason of a job that has ended.
fn end(job: &Job) -> Option<(&'static str, String)> {
    let reason = |type_: &str| Some(condition(job, type_)?.reason.clone().unwrap_or_default());
    reason("Complete").map(|reason| ("succeeded", reason)).or_else(|| Some(("failed", reason("Failed")?)))
}

/// Returns what a round did to the job's pods, in Kubernetes' words.
fn action(plan: &Plan) -> &'static str {
    let is_of_pods = |action: &&Action| action.gvr().is_some_and(|gvr| gvr.resource == "pods");
    match plan.actions.iter().find(is_of_pods) {
        Some(Action::Create { .. }) => "pods_created",
        Some(Action::Delete { .. }) => "pods_deleted",
        Some(_) => "tracking",
        None => "reconciling",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::kinds::api::batch::v1::{JobCondition, JobStatus};

    #[test]
    fn an_end_counts_once_and_pods_as_they_are_added() {
        let env = Env::simulated(1);
        let metrics = JobMetrics::new(&env);
        let status = JobStatus { succeeded: Some(1), ..JobStatus::default() };
        let running = Job { spec: Some(Default::default()), status: Some(status), ..Job::default() };
        let mut done = running.clone();
        let complete = JobCondition {
            type_: "Complete".to_owned(),
            status: "True".to_owned(),
            reason: Some("CompletionsReached".to_owned()),
            ..JobCondition::default()
        };
        done.status = Some(JobStatus { succeeded: Some(3), conditions: Some(vec![complete]), ..JobStatus::default() });
        let plan = Plan::of([Action::update_status(&done)]);
        metrics.count_round(&running, &plan, Duration::ZERO, true);
        metrics.count_round(&running, &plan, Duration::from_millis(5), false);
        metrics.count_round(&done, &plan, Duration::ZERO, false);
        let text = env.metrics().encode();
        for line in [
            "job_controller_job_sync_duration_seconds_count{action=\"reconciling\",completion_mode=\"NonIndexed\",\
             result=\"success\"} 2",
            "job_controller_job_pods_finished_total{completion_mode=\"NonIndexed\",result=\"succeeded\"} 2",
            "job_controller_jobs_finished_total{completion_mode=\"NonIndexed\",reason=\"CompletionsReached\",\
             result=\"succeeded\"} 1",
            "job_controller_job_syncs_total{action=\"reconciling\",completion_mode=\"NonIndexed\",result=\"success\"} 2",
        ] {
            assert!(text.lines().any(|written| written == line), "no {line} in\n{text}");
        }
    }
}
