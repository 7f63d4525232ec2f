//! `QueueMetrics`, the time that the queue spends in plugins: PreEnqueue and queueing hints.
//!
//! Corresponds to the metrics of pkg/scheduler/backend/queue.

use super::{Handles, PLUGIN_SAMPLE, PLUGIN_SECONDS, SchedulerMetrics, handle, labels};
use component_base::env::Env;
use component_base::metrics::Histograms;
use parking_lot::Mutex;
use prometheus_client::metrics::histogram::Histogram;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::Instant;

pub struct QueueMetrics {
    env: Env,
    hint_seconds: Histograms,
    point_seconds: Histograms,
    pre_enqueue: Handles<&'static str, Histogram>,
    judged: AtomicU64,
}

impl QueueMetrics {
    pub fn new(env: &Env, metrics: &SchedulerMetrics) -> Self {
        Self {
            env: env.clone(),
            hint_seconds: env.metrics().histograms(
                "scheduler_queueing_hint_execution_duration_seconds",
                "[ALPHA] Duration for running a queueing hint function of a plugin.",
                PLUGIN_SECONDS,
            ),
            point_seconds: metrics.point_seconds.clone(),
            pre_enqueue: Mutex::default(),
            judged: AtomicU64::default(),
        }
    }

    pub fn now(&self) -> Instant {
        self.env.now()
    }

    /// Counts a run of the PreEnqueue plugins.
    pub fn pre_enqueued(&self, profile: &str, status: &'static str, began: Instant) {
        let make = || {
            let labels = labels([("extension_point", "PreEnqueue"), ("profile", profile), ("status", status)]);
            self.point_seconds.get_or_create_owned(&labels)
        };
        handle(&self.pre_enqueue, profile, status, make).observe((self.now() - began).as_secs_f64());
    }

    /// Returns true if the hints about a pod are measured. Like calls of plugins, they are measured for a part of the pods.
    pub fn samples_hints(&self) -> bool {
        self.judged.fetch_add(1, Ordering::Relaxed).is_multiple_of(PLUGIN_SAMPLE)
    }

    /// Runs a hint, and measures it.
    pub fn hint(&self, plugin: &'static str, event: &'static str, hint: impl FnOnce() -> bool) -> bool {
        let began = self.now();
        let queues = hint();
        let result = if queues { "Queue" } else { "QueueSkip" };
        let labels = labels([("plugin", plugin), ("event", event), ("hint", result)]);
        self.hint_seconds.get_or_create(&labels).observe((self.now() - began).as_secs_f64());
        queues
    }
}
