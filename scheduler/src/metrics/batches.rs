//! `BatchMetrics`, the metrics of hints for equal pods.
//!
//! Corresponds to the batch metrics of pkg/scheduler/metrics.

use super::{Handles, handle, labels};
use component_base::env::Env;
use component_base::metrics::{Counters, Histograms, exponential};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use scheduling_framework::Profile;
use scheduling_framework::batch::BatchTrace;

const SECONDS: &[f64] = &exponential::<12>(0.00001, 2.0);

pub struct BatchMetrics {
    attempts: Counters,
    flushed: Counters,
    hint_seconds: Histograms,
    store_seconds: Histograms,
    counters: Handles<(&'static str, &'static str), Counter>,
    histograms: Handles<(&'static str, &'static str), Histogram>,
}

impl BatchMetrics {
    pub fn new(env: &Env) -> Self {
        let metrics = env.metrics();
        Self {
            attempts: metrics.counters(
                "scheduler_batch_attempts_total",
                "[ALPHA] Counts of results when we attempt to use batching.",
            ),
            flushed: metrics
                .counters("scheduler_batch_cache_flushed_total", "[ALPHA] Counts of cache flushes by reason."),
            hint_seconds: metrics.histograms(
                "scheduler_get_node_hint_duration_seconds",
                "[ALPHA] Latency for getting a node hint.",
                SECONDS,
            ),
            store_seconds: metrics.histograms(
                "scheduler_store_schedule_results_duration_seconds",
                "[ALPHA] Latency for getting a no.",
                SECONDS,
            ),
            counters: Mutex::default(),
            histograms: Mutex::default(),
        }
    }

    /// Counts what batching has done in a cycle.
    pub fn observe(&self, profile: &Profile, trace: &BatchTrace) {
        let profile = profile.scheduler_name.as_str();
        let count = |family: &Counters, label: &'static str, value: &'static str| {
            let make = || family.get_or_create_owned(&labels([("profile", profile), (label, value)]));
            handle(&self.counters, profile, (label, value), make).inc();
        };
        trace.attempts.iter().for_each(|result| count(&self.attempts, "result", result));
        trace.flushed.iter().for_each(|reason| count(&self.flushed, "reason", reason));
        if let Some((hinted, took)) = trace.hinted {
            let make = || self.hint_seconds.get_or_create_owned(&labels([("hinted", hinted), ("profile", profile)]));
            handle(&self.histograms, profile, ("hinted", hinted), make).observe(took.as_secs_f64());
        }
        if let Some(took) = trace.stored {
            let make = || self.store_seconds.get_or_create_owned(&labels([("profile", profile)]));
            handle(&self.histograms, profile, ("stored", ""), make).observe(took.as_secs_f64());
        }
    }
}
