//! `PodGroupMetrics`, the metrics of pod group cycles. They are there while the gate GenericWorkload is on.
//!
//! Corresponds to the podgroup metrics of pkg/scheduler/metrics.

use super::{ATTEMPT_SECONDS, labels};
use component_base::env::Env;
use component_base::metrics::{Counters, Histograms};
use scheduling_framework::Profile;
use scheduling_framework::pod_group_cycle::Verdict;
use std::time::Duration;

pub struct PodGroupMetrics {
    attempts: Counters,
    attempt_seconds: Histograms,
    algorithm_seconds: Histograms,
}

impl PodGroupMetrics {
    pub fn new(env: &Env) -> Self {
        let metrics = env.metrics();
        Self {
            attempts: metrics.counters(
                "scheduler_podgroup_schedule_attempts_total",
                "[ALPHA] Number of attempts to schedule pod group, by the result. 'unschedulable' means a pod group could \
                 not be scheduled, while 'error' means an internal scheduler problem.",
            ),
            attempt_seconds: metrics.histograms(
                "scheduler_podgroup_scheduling_attempt_duration_seconds",
                "[ALPHA] Pod group scheduling attempt latency in seconds (scheduling algorithm + binding)",
                ATTEMPT_SECONDS,
            ),
            algorithm_seconds: metrics.histograms(
                "scheduler_podgroup_scheduling_algorithm_duration_seconds",
                "[ALPHA] Pod group scheduling algorithm latency in seconds",
                ATTEMPT_SECONDS,
            ),
        }
    }

    /// Counts a search for the nodes of a group.
    pub fn decided(&self, took: Duration) {
        self.algorithm_seconds.get_or_create(&vec![]).observe(took.as_secs_f64());
    }

    /// Counts a cycle, including what was submitted.
    pub fn ended(&self, verdict: Verdict, profile: &Profile, took: Duration) {
        let result = match verdict {
            Verdict::Schedulable => "scheduled",
            Verdict::WaitingForPreemption => "waiting_on_preemption",
            Verdict::Unschedulable => "unschedulable",
            Verdict::Failed => "error",
        };
        let labels = labels([("profile", &profile.scheduler_name), ("result", result)]);
        self.attempts.get_or_create(&labels).inc();
        self.attempt_seconds.get_or_create(&labels).observe(took.as_secs_f64());
    }
}
