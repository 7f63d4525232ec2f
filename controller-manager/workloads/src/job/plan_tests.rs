//! Runs whole jobs against a model of the cluster whose pods end as the test says.
//!
//! Corresponds to test/e2e/apps/job.go and the syncJob tables of pkg/controller/job.

use super::indexes::COMPLETION_INDEX;
use super::observe::{Observed, has_finalizer, is_finished};
use super::plan::plan;
use client::Action;
use controller_base::controller_ref::Claims;
use controller_base::fixture;
use proto::Kind;
use proto::kinds::api::batch::v1::{Job, JobSpec, JobStatus, SuccessPolicy, SuccessPolicyRule};
use proto::kinds::api::core::v1::Pod;
use std::sync::Arc;

struct Cluster {
    job: Job,
    pods: Vec<Pod>,
    second: i64,
    made: usize,
    events: Vec<String>,
}

impl Cluster {
    fn new(change: impl FnOnce(&mut JobSpec)) -> Self {
        let mut spec = JobSpec {
            completions: Some(1),
            parallelism: Some(1),
            backoff_limit: Some(6),
            template: fixture::template("sum:1"),
            ..JobSpec::default()
        };
        change(&mut spec);
        let job = Job { metadata: fixture::meta("sum"), spec: Some(spec), status: None };
        Self { job, pods: Vec::new(), second: 0, made: 0, events: Vec::new() }
    }

    /// Carries out one plan. Returns true if it writes anything.
    fn round(&mut self) -> bool {
        self.second += 1;
        let owned = self.pods.iter().cloned().map(Arc::new).collect();
        let pods = Claims { owned, adopt: Vec::new(), release: Vec::new() };
        let observed = Observed { job: Arc::new(self.job.clone()), pods, are_expectations_satisfied: true };
        let plan = plan(&observed, fixture::at(self.second));
        let quiet = plan.is_empty();
        for action in plan.actions {
            match action {
                Action::UpdateStatus { object, .. } => self.job = Job::decode_value(object).unwrap(),
                Action::Patch { name, .. } => {
                    let pod = self.pods.iter_mut().find(|pod| pod.name() == name).unwrap();
                    pod.metadata.finalizers = None;
                }
                Action::Event(event) => self.events.push(format!("{} {}", event.reason, event.message)),
                Action::Create { object, .. } => self.create(Pod::decode_value(object).unwrap()),
                Action::Delete { name, .. } => {
                    let pod = self.pods.iter_mut().find(|pod| pod.name() == name).unwrap();
                    pod.metadata.deletion_timestamp = Some(fixture::time(self.second));
                }
                other => panic!("unexpected: {other}"),
            }
        }
        self.pods.retain(|pod| !pod.is_deleting() || has_finalizer(pod));
        !quiet
    }

    fn create(&mut self, mut pod: Pod) {
        assert!(has_finalizer(&pod));
        self.made += 1;
        let name = format!("{}{}", pod.metadata.generate_name.clone().unwrap(), self.made);
        pod.metadata.uid = Some(format!("uid-{name}"));
        pod.metadata.name = Some(name);
        pod.metadata.creation_timestamp = Some(fixture::time(self.second));
        fixture::set_phase(&mut pod, "Running");
        self.pods.push(pod);
    }

    fn run_until_stable(&mut self) {
        for _ in 0..100 {
            if !self.round() {
                return;
            }
        }
        panic!("no end: {:?} {:?}", self.job.status, self.events);
    }

    fn running(&self) -> Vec<usize> {
        (0..self.pods.len()).filter(|&i| controller_base::pod::is_active(&self.pods[i])).collect()
    }

    /// Ends all running pods in the same phase, and then runs rounds until one writes nothing.
    fn end_all(&mut self, phase: &str) {
        for i in self.running() {
            fixture::set_phase(&mut self.pods[i], phase);
            fixture::set_condition(&mut self.pods[i], "Ready", "False", fixture::at(self.second));
        }
        self.run_until_stable();
    }

    fn wait(&mut self, seconds: i64) {
        self.second += seconds;
        self.run_until_stable();
    }

    fn status(&self) -> JobStatus {
        self.job.status.clone().unwrap()
    }

    fn ended_with(&self) -> Option<String> {
        let conditions = self.status().conditions?;
        let end = conditions.into_iter().find(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed"))?;
        Some(format!("{} {}", end.type_, end.reason?))
    }
}

#[test]
fn completions_are_reached_with_so_many_at_a_time() {
    for (completions, parallelism, expected_waves) in [(1, 1, 1), (3, 1, 3), (6, 2, 3), (5, 2, 3), (2, 5, 1)] {
        let mut cluster = Cluster::new(|spec| {
            spec.completions = Some(completions);
            spec.parallelism = Some(parallelism);
        });
        let mut waves = 0;
        cluster.run_until_stable();
        while !is_finished(&cluster.job) {
            assert!(cluster.running().len() <= usize::try_from(parallelism).unwrap());
            cluster.end_all("Succeeded");
            waves += 1;
        }
        assert_eq!(waves, expected_waves, "{completions} {parallelism}");
        assert_eq!(cluster.status().succeeded, Some(completions));
        assert_eq!(cluster.made, usize::try_from(completions).unwrap(), "no pod too many");
        assert_eq!(cluster.ended_with().unwrap(), "Complete CompletionsReached");
        assert!(cluster.status().completion_time.is_some());
        assert!(cluster.pods.iter().all(|pod| !has_finalizer(pod)), "every pod is let go of");
        assert_eq!(cluster.events, ["Completed Job completed"]);
    }
}

/// The API server refuses a status whose completion is before its start.
#[test]
fn a_job_ends_although_its_start_was_stamped_by_a_clock_that_was_ahead() {
    let mut cluster = Cluster::new(|_| {});
    cluster.second += 3600;
    cluster.run_until_stable();
    cluster.second -= 3600;
    cluster.end_all("Succeeded");
    assert_eq!(cluster.ended_with().unwrap(), "Complete CompletionsReached");
    assert_eq!(cluster.status().completion_time, cluster.status().start_time);
}

#[test]
fn a_work_queue_ends_when_one_succeeded_and_the_others_have_finished() {
    let mut cluster = Cluster::new(|spec| {
        spec.completions = None;
        spec.parallelism = Some(3);
    });
    cluster.run_until_stable();
    assert_eq!(cluster.running().len(), 3);
    let first = cluster.running()[0];
    fixture::set_phase(&mut cluster.pods[first], "Succeeded");
    cluster.run_until_stable();
    assert_eq!((cluster.running().len(), cluster.ended_with()), (2, None));
    cluster.end_all("Succeeded");
    assert_eq!(cluster.ended_with().unwrap(), "Complete CompletionsReached");
    assert_eq!(cluster.status().succeeded, Some(3));
}

#[test]
fn failures_are_retried_with_growing_waits_up_to_the_limit() {
    let mut cluster = Cluster::new(|spec| spec.backoff_limit = Some(2));
    cluster.run_until_stable();
    for (failures, wait) in [(1, 10), (2, 20)] {
        cluster.end_all("Failed");
        assert_eq!(cluster.status().failed, Some(failures));
        assert_eq!(cluster.running().len(), 0, "it waits");
        cluster.wait(wait);
        assert_eq!(cluster.running().len(), 1, "{failures} failures, {wait} s later");
    }
    cluster.end_all("Failed");
    assert_eq!(cluster.ended_with().unwrap(), "Failed BackoffLimitExceeded");
    assert_eq!(cluster.status().failed, Some(3));
    let types: Vec<String> =
        cluster.status().conditions.unwrap().into_iter().map(|condition| condition.type_).collect();
    assert_eq!(types, ["FailureTarget", "Failed"]);
}

#[test]
fn a_job_that_takes_too_long_fails_and_its_pods_go() {
    let mut cluster = Cluster::new(|spec| {
        spec.parallelism = Some(2);
        spec.completions = Some(4);
        spec.active_deadline_seconds = Some(60);
    });
    cluster.run_until_stable();
    cluster.wait(60);
    assert_eq!(cluster.ended_with().unwrap(), "Failed DeadlineExceeded");
    assert!(cluster.pods.is_empty());
    assert_eq!(cluster.status().failed, Some(2), "pods that were ended count as failed");
}

#[test]
fn every_index_is_done_once() {
    let mut cluster = Cluster::new(|spec| {
        spec.completion_mode = Some("Indexed".to_owned());
        spec.completions = Some(4);
        spec.parallelism = Some(3);
    });
    cluster.run_until_stable();
    let index = |pod: &Pod| pod.metadata.annotations.as_ref().unwrap()[COMPLETION_INDEX].clone();
    let indexes: Vec<String> = cluster.pods.iter().map(index).collect();
    assert_eq!(indexes, ["0", "1", "2"]);
    let spec = cluster.pods[1].spec.clone().unwrap();
    assert_eq!(spec.hostname.as_deref(), Some("sum-1"));
    assert_eq!(spec.containers[0].env.as_ref().unwrap()[0].name, "JOB_COMPLETION_INDEX");
    fixture::set_phase(&mut cluster.pods[0], "Succeeded");
    fixture::set_phase(&mut cluster.pods[1], "Failed");
    cluster.run_until_stable();
    assert_eq!(cluster.status().completed_indexes.as_deref(), Some("0"));
    cluster.wait(20);
    let running: Vec<String> = cluster.running().into_iter().map(|i| index(&cluster.pods[i])).collect();
    assert_eq!(running, ["2", "1", "3"], "the failed index is tried again");
    cluster.end_all("Succeeded");
    assert_eq!(cluster.ended_with().unwrap(), "Complete CompletionsReached");
    assert_eq!(cluster.status().completed_indexes.as_deref(), Some("0-3"));
}

#[test]
fn failures_can_be_limited_per_index() {
    let mut cluster = Cluster::new(|spec| {
        spec.completion_mode = Some("Indexed".to_owned());
        spec.completions = Some(2);
        spec.parallelism = Some(2);
        spec.backoff_limit = Some(i32::MAX);
        spec.backoff_limit_per_index = Some(1);
    });
    cluster.run_until_stable();
    fixture::set_phase(&mut cluster.pods[0], "Succeeded");
    fixture::set_phase(&mut cluster.pods[1], "Failed");
    fixture::set_condition(&mut cluster.pods[1], "Ready", "False", fixture::at(cluster.second));
    cluster.run_until_stable();
    assert_eq!((cluster.running().len(), cluster.status().failed), (0, None), "it waits, and keeps what it knows");
    cluster.wait(10);
    assert_eq!(cluster.running().len(), 1, "index 1 once more");
    assert_eq!(cluster.status().failed, Some(1), "counted, now that its successor remembers it");
    cluster.end_all("Failed");
    assert_eq!(cluster.status().failed_indexes.as_deref(), Some("1"));
    assert_eq!(cluster.ended_with().unwrap(), "Failed FailedIndexes");
}

#[test]
fn a_suspended_job_has_no_pods_and_starts_again() {
    let mut cluster = Cluster::new(|spec| spec.suspend = Some(true));
    cluster.run_until_stable();
    assert_eq!((cluster.pods.len(), cluster.status().start_time), (0, None));
    cluster.job.spec.as_mut().unwrap().suspend = Some(false);
    cluster.run_until_stable();
    assert_eq!(cluster.running().len(), 1);
    cluster.job.spec.as_mut().unwrap().suspend = Some(true);
    cluster.run_until_stable();
    assert_eq!(cluster.running().len(), 0);
    assert_eq!(cluster.status().failed, None, "a pod that had to go has not failed");
    assert_eq!(cluster.events, ["Suspended Job suspended", "Resumed Job resumed", "Suspended Job suspended"]);
}

#[test]
fn pods_that_a_success_policy_ends_have_not_failed() {
    let rule = SuccessPolicyRule { succeeded_indexes: Some("0".to_owned()), succeeded_count: None };
    let mut cluster = Cluster::new(|spec| {
        spec.completion_mode = Some("Indexed".to_owned());
        spec.completions = Some(3);
        spec.parallelism = Some(3);
        spec.success_policy = Some(SuccessPolicy { rules: vec![rule] });
    });
    cluster.run_until_stable();
    fixture::set_phase(&mut cluster.pods[0], "Succeeded");
    cluster.run_until_stable();
    assert_eq!(cluster.ended_with().unwrap(), "Complete SuccessPolicy");
    assert_eq!((cluster.status().succeeded, cluster.status().failed), (Some(1), None));
    assert!(cluster.pods.iter().all(|pod| !has_finalizer(pod)));
}

#[test]
fn of_pods_that_double_an_index_the_better_one_stays() {
    let mut cluster = Cluster::new(|spec| {
        spec.completion_mode = Some("Indexed".to_owned());
        spec.completions = Some(1);
    });
    cluster.run_until_stable();
    let mut double = cluster.pods[0].clone();
    double.metadata.name = Some("double".to_owned());
    double.metadata.uid = Some("uid-a".to_owned());
    fixture::set_ready(&mut cluster.pods[0], fixture::at(cluster.second));
    cluster.pods.push(double);
    cluster.run_until_stable();
    let left: Vec<&str> = cluster.pods.iter().map(Kind::name).collect();
    assert_eq!(left, ["sum-0-1"], "the one that is ready");
}

#[test]
fn orphans_are_adopted_with_the_finalizer_that_gets_them_counted() {
    let cluster = Cluster::new(|_| {});
    let pods = Claims { owned: Vec::new(), adopt: vec![Arc::new(fixture::pod("old"))], release: Vec::new() };
    let observed = Observed { job: Arc::new(cluster.job), pods, are_expectations_satisfied: true };
    let adoption = plan(&observed, fixture::at(1)).to_string();
    assert!(adoption.contains(r#""finalizers":["batch.kubernetes.io/job-tracking"]"#), "{adoption}");
}

/// The controller may stop after any write. No pod is counted twice.
#[test]
fn interrupted_counting_counts_once() {
    let mut cluster = Cluster::new(|spec| {
        spec.completions = Some(2);
        spec.parallelism = Some(2);
    });
    cluster.run_until_stable();
    for i in cluster.running() {
        fixture::set_phase(&mut cluster.pods[i], "Succeeded");
    }
    cluster.round();
    // The status was written, and the finalizers were not removed.
    for pod in &mut cluster.pods {
        pod.metadata.finalizers = Some(vec![super::observe::FINALIZER.to_owned()]);
    }
    cluster.run_until_stable();
    assert_eq!(cluster.status().succeeded, Some(2));
    assert_eq!(cluster.ended_with().unwrap(), "Complete CompletionsReached");
}
