//! `PreemptionMetrics`, the metrics of evictions beside the cycle. They are there while the gate SchedulerAsyncPreemption is on.
//!
//! Corresponds to the preemption_goroutines metrics of pkg/scheduler/metrics.

use super::labels;
use component_base::env::Env;
use component_base::metrics::{Counters, Histograms, exponential};
use std::time::Duration;

const SECONDS: &[f64] = &exponential::<20>(0.01, 2.0);

pub struct PreemptionMetrics {
    seconds: Histograms,
    total: Counters,
}

impl PreemptionMetrics {
    pub fn new(env: &Env) -> Self {
        let metrics = env.metrics();
        Self {
            seconds: metrics.histograms(
                "scheduler_preemption_goroutines_duration_seconds",
                "[ALPHA] Duration in seconds for running goroutines for the preemption.",
                SECONDS,
            ),
            total: metrics.counters(
                "scheduler_preemption_goroutines_execution_total",
                "[ALPHA] Number of preemption goroutines executed.",
            ),
        }
    }

    /// Counts the evictions of one preemptor.
    pub fn ended(&self, succeeded: bool, took: Duration) {
        let labels = labels([("result", if succeeded { "success" } else { "error" })]);
        self.seconds.get_or_create(&labels).observe(took.as_secs_f64());
        self.total.get_or_create(&labels).inc();
    }
}
