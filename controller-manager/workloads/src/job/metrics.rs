//! `JobMetrics`: rounds of jobs and how long they take, jobs that ended, and pods that were created and counted.
//!
//! Corresponds to pkg/controller/job/metrics.

use super::indexes;
use super::observe::{
    MANAGER, Observed, condition, has_finalizer, is_failed, is_indexed, replaces_terminal_only, spec,
};
use super::policy::matching_rule;
use client::{Action, ApplyError, Event, Plan};
use component_base::env::Env;
use component_base::metrics::{Counters, Histograms, Labels, exponential};
use controller_base::pod;
use controller_base::pod_control::Creations;
use proto::Kind;
use proto::kinds::api::batch::v1::{Job, JobStatus};
use proto::kinds::api::core::v1::Pod;
use std::time::Duration;

const SECONDS: &[f64] = &exponential::<15>(0.004, 2.0);

#[derive(Clone, Debug)]
pub struct JobMetrics {
    rounds: Counters,
    durations: Histograms,
    ended: Counters,
    pods: Counters,
    created: Counters,
    indexes: Counters,
    judged: Counters,
    tracked: Counters,
    elsewhere: Counters,
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
            created: metrics.counters(
                "job_controller_job_pods_creation_total",
                "The number of Pods created by the Job controller labelled with a reason for the Pod creation.\n\
                 This metric also distinguishes between Pods created using different PodReplacementPolicy settings.\n\
                 Possible values of the \"reason\" label are:\n\
                 \"new\", \"recreate_terminating_or_failed\", \"recreate_failed\".\n\
                 Possible values of the \"status\" label are:\n\
                 \"succeeded\", \"failed\".",
            ),
            indexes: metrics.counters(
                "job_controller_job_finished_indexes_total",
                "The number of finished indexes. Possible values for the status label are: \"succeeded\", \"failed\". \
                 Possible values for the backoffLimit label are: \"perIndex\" and \"global\"",
            ),
            judged: metrics.counters(
                "job_controller_pod_failures_handled_by_failure_policy_total",
                "The number of failed Pods handled by failure policy with respect to the failure policy action \
                 applied based on the matched rule. Possible values of the action label correspond to the possible \
                 values for the failure policy rule action, which are: \"FailJob\", \"Ignore\" and \"Count\".",
            ),
            tracked: metrics.counters(
                "job_controller_terminated_pods_tracking_finalizer_total",
                "The number of terminated pods (phase=Failed|Succeeded) that have the finalizer \
                 batch.kubernetes.io/job-tracking. The event label can be \"add\" or \"delete\".",
            ),
            elsewhere: metrics.counters(
                "job_controller_jobs_by_external_controller_total",
                "The number of Jobs managed by an external controller",
            ),
        }
    }

    /// Counts a round, and what its new status says for the first time if the server has it.
    pub fn count_round(&self, observed: &Observed, plan: &Plan, duration: Duration, error: Option<&ApplyError>) {
        let job = &*observed.job;
        let result = if error.is_some() { "error" } else { "success" };
        let labels = vec![("action", action(plan).to_owned()), mode(job), ("result", result.to_owned())];
        self.rounds.get_or_create(&labels).inc();
        self.durations.get_or_create(&labels).observe(duration.as_secs_f64());
        // The status is the first action of a plan.
        if error.is_some_and(|error| matches!(error.failed, Action::UpdateStatus { .. })) {
            return;
        }
        for now in plan.actions.iter().filter_map(written_job) {
            let (before, after) = (status(job), status(&now));
            self.count_pods(job, "succeeded", counted(before.succeeded, after.succeeded));
            self.count_pods(job, "failed", counted(before.failed, after.failed));
            self.count_indexes(job, &before, &after);
            if let Some((result, reason)) = end(&now).filter(|_| end(job).is_none()) {
                let labels = vec![mode(job), ("reason", reason), ("result", result.to_owned())];
                self.ended.get_or_create(&labels).inc();
            }
        }
        self.count_judged(observed, plan);
    }

    /// Counts the pods that a round has tried to create.
    pub fn count_creations(&self, observed: &Observed, plan: &Plan, creations: Creations) {
        let job = &*observed.job;
        let status = plan.actions.iter().find_map(written_job).map_or_else(|| status(job), |job| status(&job));
        let uncounted = status.uncounted_terminated_pods.and_then(|pods| pods.failed).unwrap_or_default();
        let has_failed = status.failed.unwrap_or(0) > 0 || !uncounted.is_empty();
        let reason = if has_failed && replaces_terminal_only(job) {
            "recreate_failed"
        } else if has_failed || observed.terminating() > 0 {
            "recreate_terminating_or_failed"
        } else {
            "new"
        };
        for (status, pods) in [("succeeded", creations.succeeded), ("failed", creations.failed)] {
            if pods > 0 {
                let labels = vec![("reason", reason.to_owned()), ("status", status.to_owned())];
                self.created.get_or_create(&labels).inc_by(pods);
            }
        }
    }

    /// Counts a new job that another controller manages.
    pub fn count_managed_elsewhere(&self, event: &Event<Job>) {
        let Event::Added(job) = event else { return };
        if let Some(manager) = spec(job).managed_by.clone().filter(|manager| manager != MANAGER) {
            self.elsewhere.get_or_create(&vec![("controller_name", manager)]).inc();
        }
    }

    /// Counts a pod that has ended and is to be counted, and one that no longer has to be.
    pub fn count_tracked_ends(&self, event: &Event<Pod>) {
        let is_tracked = |pod: &Pod| pod::is_terminal(pod) && has_finalizer(pod);
        let (was, is) = match event {
            Event::Added(pod) => (false, is_tracked(pod)),
            Event::Updated { old, new } => (is_tracked(old), is_tracked(new)),
            Event::Deleted(pod) => (is_tracked(pod), false),
        };
        if was != is {
            let event = if is { "add" } else { "delete" };
            self.tracked.get_or_create(&vec![("event", event.to_owned())]).inc();
        }
    }

    fn count_indexes(&self, job: &Job, before: &JobStatus, after: &JobStatus) {
        if !is_indexed(job) {
            return;
        }
        let completions = spec(job).completions.unwrap_or(0);
        let count = |text: &Option<String>| indexes::parse(text.as_deref().unwrap_or_default(), completions).len();
        let limit = if spec(job).backoff_limit_per_index.is_some() { "perIndex" } else { "global" };
        for (status, before, after) in [
            ("succeeded", &before.completed_indexes, &after.completed_indexes),
            ("failed", &before.failed_indexes, &after.failed_indexes),
        ] {
            let added = count(after).saturating_sub(count(before)) as u64;
            if added > 0 {
                let labels = vec![("backoffLimit", limit.to_owned()), ("status", status.to_owned())];
                self.indexes.get_or_create(&labels).inc_by(added);
            }
        }
    }

    /// Counts the failed pods that a rule of the pod failure policy matches, when they are released.
    fn count_judged(&self, observed: &Observed, plan: &Plan) {
        let job = &*observed.job;
        let Some(policy) = &spec(job).pod_failure_policy else { return };
        let counted = status(job).uncounted_terminated_pods.and_then(|pods| pods.failed).unwrap_or_default();
        let released = plan.actions.iter().filter_map(|action| match action {
            Action::Patch { gvr, name, .. } if *gvr == Pod::gvr() => Some(name),
            _ => None,
        });
        for name in released {
            let pod = observed.pods.owned.iter().find(|pod| pod.name() == *name && is_failed(job, pod));
            let Some(pod) = pod.filter(|pod| !counted.iter().any(|uid| uid == pod.uid())) else { continue };
            if let Some((_, rule, _)) = matching_rule(Some(policy), pod) {
                self.judged.get_or_create(&vec![("action", rule.action.clone())]).inc();
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

fn status(job: &Job) -> JobStatus {
    job.status.clone().unwrap_or_default()
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
    use crate::job::observe::FINALIZER;
    use crate::job::plan::release;
    use client::Error;
    use controller_base::controller_ref::Claims;
    use controller_base::fixture;
    use proto::kinds::api::batch::v1::{
        JobCondition, JobSpec, PodFailurePolicy, PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
    };
    use proto::kinds::api::core::v1::PodCondition;
    use std::sync::Arc;

    fn complete(reason: &str) -> Vec<JobCondition> {
        vec![JobCondition {
            type_: "Complete".to_owned(),
            status: "True".to_owned(),
            reason: Some(reason.to_owned()),
            ..JobCondition::default()
        }]
    }

    fn observed(job: &Job, pods: Vec<Pod>) -> Observed {
        let owned = pods.into_iter().map(Arc::new).collect();
        let pods = Claims { owned, adopt: Vec::new(), release: Vec::new() };
        Observed { job: Arc::new(job.clone()), pods, are_expectations_satisfied: true }
    }

    /// Checks lines of families whose names begin with `job_controller_`.
    fn expect(env: &Env, lines: &[&str]) {
        let text = env.metrics().encode();
        for line in lines {
            let line = format!("job_controller_{line}");
            assert!(text.lines().any(|written| written == line), "no {line} in\n{text}");
        }
    }

    #[test]
    fn an_end_counts_once_and_pods_as_they_are_added() {
        let env = Env::simulated(1);
        let metrics = JobMetrics::new(&env);
        let status = JobStatus { succeeded: Some(1), ..JobStatus::default() };
        let running = Job { spec: Some(Default::default()), status: Some(status), ..Job::default() };
        let mut done = running.clone();
        let conditions = Some(complete("CompletionsReached"));
        done.status = Some(JobStatus { succeeded: Some(3), conditions, ..JobStatus::default() });
        let plan = Plan::of([Action::update_status(&done)]);
        let refused =
            ApplyError { done: 0, failed: plan.actions[0].clone(), cause: Error::Transport("refused".to_owned()) };
        metrics.count_round(&observed(&running, Vec::new()), &plan, Duration::ZERO, Some(&refused));
        metrics.count_round(&observed(&running, Vec::new()), &plan, Duration::from_millis(5), None);
        metrics.count_round(&observed(&done, Vec::new()), &plan, Duration::ZERO, None);
        let lines = [
            "job_sync_duration_seconds_count{action=\"reconciling\",completion_mode=\"NonIndexed\",result=\"success\"} 2",
            "job_pods_finished_total{completion_mode=\"NonIndexed\",result=\"succeeded\"} 2",
            "jobs_finished_total{completion_mode=\"NonIndexed\",reason=\"CompletionsReached\",result=\"succeeded\"} 1",
            "job_syncs_total{action=\"reconciling\",completion_mode=\"NonIndexed\",result=\"success\"} 2",
        ];
        expect(&env, &lines);
    }

    #[test]
    fn indexes_count_by_the_kind_of_their_limit() {
        let env = Env::simulated(1);
        let metrics = JobMetrics::new(&env);
        let spec = JobSpec {
            completion_mode: Some("Indexed".to_owned()),
            completions: Some(9),
            backoff_limit_per_index: Some(1),
            ..JobSpec::default()
        };
        let running = Job { spec: Some(spec), ..Job::default() };
        let mut later = running.clone();
        later.status = Some(JobStatus {
            completed_indexes: Some("0-2,5".to_owned()),
            failed_indexes: Some("3".to_owned()),
            ..JobStatus::default()
        });
        let plan = Plan::of([Action::update_status(&later)]);
        metrics.count_round(&observed(&running, Vec::new()), &plan, Duration::ZERO, None);
        metrics.count_round(&observed(&later, Vec::new()), &plan, Duration::ZERO, None);
        let lines = [
            "job_finished_indexes_total{backoffLimit=\"perIndex\",status=\"succeeded\"} 4",
            "job_finished_indexes_total{backoffLimit=\"perIndex\",status=\"failed\"} 1",
        ];
        expect(&env, &lines);
    }

    #[test]
    fn creations_count_by_what_they_replace() {
        let env = Env::simulated(1);
        let metrics = JobMetrics::new(&env);
        let job = |policy: &str, failed: i32| Job {
            spec: Some(JobSpec { pod_replacement_policy: Some(policy.to_owned()), ..JobSpec::default() }),
            status: Some(JobStatus { failed: Some(failed), ..JobStatus::default() }),
            ..Job::default()
        };
        let mut terminating = fixture::pod("going");
        terminating.metadata.deletion_timestamp = Some(fixture::time(1));
        let of = |succeeded, failed| Creations { succeeded, failed };
        for (job, pods, creations) in [
            (job("Failed", 0), Vec::new(), of(3, 1)),
            (job("Failed", 1), Vec::new(), of(5, 0)),
            (job("TerminatingOrFailed", 2), Vec::new(), of(7, 0)),
            (job("TerminatingOrFailed", 0), vec![terminating], of(10, 0)),
        ] {
            metrics.count_creations(&observed(&job, pods), &Plan::default(), creations);
        }
        let lines = [
            "job_pods_creation_total{reason=\"new\",status=\"succeeded\"} 3",
            "job_pods_creation_total{reason=\"new\",status=\"failed\"} 1",
            "job_pods_creation_total{reason=\"recreate_failed\",status=\"succeeded\"} 5",
            "job_pods_creation_total{reason=\"recreate_terminating_or_failed\",status=\"succeeded\"} 17",
        ];
        expect(&env, &lines);
    }

    #[test]
    fn a_failure_counts_by_the_rule_that_matches_it() {
        let env = Env::simulated(1);
        let metrics = JobMetrics::new(&env);
        let pattern = PodFailurePolicyOnPodConditionsPattern { type_: "DisruptionTarget".to_owned(), status: None };
        let rule = PodFailurePolicyRule {
            action: "Ignore".to_owned(),
            on_pod_conditions: Some(vec![pattern]),
            ..PodFailurePolicyRule::default()
        };
        let spec = JobSpec { pod_failure_policy: Some(PodFailurePolicy { rules: vec![rule] }), ..JobSpec::default() };
        let job = Job { spec: Some(spec), ..Job::default() };
        let failed = |name: &str, is_disrupted: bool| {
            let mut pod = fixture::pod(name);
            fixture::set_phase(&mut pod, "Failed");
            let condition = PodCondition {
                type_: "DisruptionTarget".to_owned(),
                status: "True".to_owned(),
                ..PodCondition::default()
            };
            pod.status.as_mut().unwrap().conditions = is_disrupted.then(|| vec![condition]);
            pod
        };
        let pods = vec![failed("drained", true), failed("broken", false), failed("kept", true)];
        let plan = Plan::of(pods[..2].iter().map(release));
        metrics.count_round(&observed(&job, pods), &plan, Duration::ZERO, None);
        expect(&env, &["pod_failures_handled_by_failure_policy_total{action=\"Ignore\"} 1"]);
    }

    #[test]
    fn tracked_ends_and_jobs_of_others_count_as_they_appear() {
        let env = Env::simulated(1);
        let metrics = JobMetrics::new(&env);
        let mut ended = fixture::pod("ended");
        fixture::set_phase(&mut ended, "Succeeded");
        ended.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        let (ended, released, running) = (Arc::new(ended.clone()), fixture::pod("ended"), fixture::pod("running"));
        for event in [
            Event::Added(ended.clone()),
            Event::Updated { old: ended.clone(), new: ended.clone() },
            Event::Updated { old: ended.clone(), new: Arc::new(released) },
            Event::Added(Arc::new(running)),
            Event::Added(ended.clone()),
            Event::Deleted(ended),
        ] {
            metrics.count_tracked_ends(&event);
        }
        for manager in [None, Some(MANAGER), Some("example.com/batch")] {
            let spec = JobSpec { managed_by: manager.map(str::to_owned), ..JobSpec::default() };
            let job = Arc::new(Job { spec: Some(spec), ..Job::default() });
            metrics.count_managed_elsewhere(&Event::Added(job.clone()));
            metrics.count_managed_elsewhere(&Event::Deleted(job));
        }
        let lines = [
            "terminated_pods_tracking_finalizer_total{event=\"add\"} 2",
            "terminated_pods_tracking_finalizer_total{event=\"delete\"} 2",
            "jobs_by_external_controller_total{controller_name=\"example.com/batch\"} 1",
        ];
        expect(&env, &lines);
    }
}
