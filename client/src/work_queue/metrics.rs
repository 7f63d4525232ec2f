//! Metrics of a work queue, under client-go's names.
//!
//! Corresponds to k8s.io/component-base/metrics/prometheus/workqueue.

use component_base::env::Env;
use component_base::metrics::Labels;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use std::sync::atomic::AtomicU64;

/// Buckets from ten nanoseconds to a thousand seconds, tenfold each.
const SECONDS: &[f64] = &[1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0];

pub(super) struct QueueMetrics {
    pub(super) adds: Counter,
    pub(super) depth: Gauge,
    pub(super) retries: Counter,
    /// Time from ready to taken.
    pub(super) waited: Histogram,
    /// Time from taken to done.
    pub(super) worked: Histogram,
    /// Sum of the ages of all keys that are taken and not done.
    pub(super) unfinished: FloatGauge,
    pub(super) longest: FloatGauge,
}

type FloatGauge = Gauge<f64, AtomicU64>;

impl QueueMetrics {
    pub(super) fn new(env: &Env, name: &str) -> Self {
        let labels: Labels = vec![("name", name.to_owned())];
        let adds = env.metrics().counters("workqueue_adds_total", "Total number of adds handled by workqueue");
        let depth = env.metrics().gauges("workqueue_depth", "Current depth of workqueue");
        let retries = env.metrics().counters("workqueue_retries_total", "Total number of retries handled by workqueue");
        let help = "How long in seconds an item stays in workqueue before being requested";
        let waited = env.metrics().histograms("workqueue_queue_duration_seconds", help, SECONDS);
        let help = "How long in seconds processing an item from workqueue takes";
        let worked = env.metrics().histograms("workqueue_work_duration_seconds", help, SECONDS);
        let help = "How many seconds of work has done that is in progress and hasn't been observed by work_duration. \
                    Large values indicate stuck threads. One can deduce the number of stuck threads by observing the \
                    rate at which this increases.";
        let unfinished = env.metrics().float_gauges("workqueue_unfinished_work_seconds", help);
        let help = "How many seconds has the longest running processor for workqueue been running";
        let longest = env.metrics().float_gauges("workqueue_longest_running_processor_seconds", help);
        Self {
            unfinished: unfinished.get_or_create_owned(&labels),
            longest: longest.get_or_create_owned(&labels),
            adds: adds.get_or_create_owned(&labels),
            depth: depth.get_or_create_owned(&labels),
            retries: retries.get_or_create_owned(&labels),
            waited: waited.get_or_create_owned(&labels),
            worked: worked.get_or_create_owned(&labels),
        }
    }
}
