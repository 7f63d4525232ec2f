//! The metrics whose values are the state of the queue and the cache. They are counted before each scrape.
//!
//! Corresponds to the gauges of pkg/scheduler/metrics.

use crate::metrics::labels;
use crate::queue::QueuedPod;
use crate::scheduler::Scheduler;
use component_base::env::Env;
use component_base::metrics::{Counters, Gauges, Labels};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// Counts before each scrape, as long as the scheduler exists.
pub fn follow(env: &Env, scheduler: &Arc<Scheduler>) {
    let (scheduler, counted) = (Arc::downgrade(scheduler), Counted::new(env));
    env.metrics().before_encoding(move || counted.refresh(&scheduler));
}

/// Families whose values are state.
struct Counted {
    pending: Gauges,
    incoming: Counters,
    unschedulable: Gauges,
    cache_size: Gauges,
    inflight: Gauges,
    evaluations: Counters,
}

impl Counted {
    fn new(env: &Env) -> Self {
        let metrics = env.metrics();
        Self {
            pending: metrics.gauges(
                "scheduler_pending_pods",
                "[STABLE] Number of pending pods, by the queue type. 'active' means number of pods in activeQ; \
                 'backoff' means number of pods in backoffQ; 'unschedulable' means number of pods in \
                 unschedulablePods that the scheduler attempted to schedule and failed; 'gated' is the number of \
                 unschedulable pods that the scheduler never attempted to schedule because they are gated.",
            ),
            incoming: metrics.counters(
                "scheduler_queue_incoming_pods_total",
                "[STABLE] Number of pods added to scheduling queues by event and queue type.",
            ),
            unschedulable: metrics.gauges(
                "scheduler_unschedulable_pods",
                "[BETA] The number of unschedulable pods broken down by plugin name. A pod will increment the gauge \
                 for all plugins that caused it to not schedule and so this metric have meaning only when broken \
                 down by plugin.",
            ),
            cache_size: metrics.gauges(
                "scheduler_cache_size",
                "[ALPHA] Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
            ),
            inflight: metrics.gauges(
                "scheduler_inflight_events",
                "[ALPHA] Number of events currently tracked in the scheduling queue.",
            ),
            evaluations: metrics.counters(
                "scheduler_plugin_evaluation_total",
                "[BETA] Number of attempts to schedule pods by each plugin and the extension point (available only \
                 in PreFilter, Filter, PreScore, and Score).",
            ),
        }
    }

    /// Returns false once the scheduler is gone.
    fn refresh(&self, scheduler: &Weak<Scheduler>) -> bool {
        let Some(scheduler) = scheduler.upgrade() else { return false };
        let profile = |queued: &QueuedPod| {
            let name = queued.info.spec().scheduler_name.as_deref();
            name.unwrap_or(scheduling_framework::configuration::profile::DEFAULT_SCHEDULER).to_owned()
        };
        self.unschedulable.clear();
        self.inflight.clear();
        scheduler.queue.with(|queue, _| {
            let parts = ["active", "backoff", "unschedulable", "gated"];
            for (part, length) in parts.into_iter().zip(queue.lengths()) {
                set(&self.pending, &labels([("queue", part)]), length);
            }
            for ((part, event), count) in queue.incoming() {
                set_counter(&self.incoming, &labels([("event", event), ("queue", part)]), *count);
            }
            for (event, count) in queue.inflight_events() {
                set(&self.inflight, &labels([("event", event)]), count);
            }
            for (queued, _) in queue.pending() {
                for plugin in &queued.rejected_by {
                    let labels = labels([("plugin", plugin), ("profile", &profile(queued))]);
                    self.unschedulable.get_or_create(&labels).inc();
                }
            }
        });
        let counts = scheduler.cache.lock().counts();
        for (kind, count) in ["nodes", "pods", "assumed_pods"].into_iter().zip(counts) {
            set(&self.cache_size, &labels([("type", kind)]), count);
        }
        scheduler.metrics.evaluations.each(|profile, point, plugin, calls| {
            let labels = labels([("extension_point", point), ("plugin", plugin), ("profile", profile)]);
            set_counter(&self.evaluations, &labels, calls);
        });
        true
    }
}

fn set(gauges: &Gauges, labels: &Labels, value: usize) {
    gauges.get_or_create(labels).set(i64::try_from(value).unwrap_or(i64::MAX));
}

fn set_counter(counters: &Counters, labels: &Labels, value: u64) {
    counters.get_or_create(labels).inner().store(value, Ordering::Relaxed);
}
