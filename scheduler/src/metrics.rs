//! `SchedulerMetrics`, the metrics of scheduling under kube-scheduler's names.
//!
//! Corresponds to pkg/scheduler/metrics. `operations/state_metrics` counts what follows from the queue and the cache.

pub mod batches;
pub mod evaluations;
pub mod pod_groups;
pub mod preemption;
pub mod queue;

use component_base::env::Env;
use component_base::metrics::{Counters, Gauges, Histograms, Labels, exponential};
use evaluations::Evaluations;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use scheduling_framework::configuration::plugin_sets::Point;
use scheduling_framework::cycle::Decision;
use scheduling_framework::timings::{PointTiming, Timings};
use scheduling_framework::{CycleError, CycleState, FitError, Profile};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// One cycle of this many measures each call of its plugins, but no more than one in `SAMPLE_PERIOD`. Deviation: Kubernetes
/// measures one of ten; here that would cost as much as the cycle.
const PLUGIN_SAMPLE: u64 = 100;
const SAMPLE_PERIOD: Duration = Duration::from_secs(1);
/// Label for pods with this many attempts or more.
const MANY_ATTEMPTS: u32 = 15;

const ATTEMPT_SECONDS: &[f64] = &exponential::<15>(0.001, 2.0);
const SLI_SECONDS: &[f64] = &exponential::<20>(0.01, 2.0);
const POINT_SECONDS: &[f64] = &exponential::<12>(0.0001, 2.0);
const PLUGIN_SECONDS: &[f64] = &exponential::<20>(0.00001, 1.5);
const ATTEMPTS: &[f64] = &exponential::<5>(1.0, 2.0);
const VICTIMS: &[f64] = &exponential::<7>(1.0, 2.0);

/// Metrics by the name of a profile or plugin, and a key. A family would format and hash all labels at each use. There are few of
/// each, so they are lists.
type Handles<K, M> = Mutex<Vec<(String, Vec<(K, M)>)>>;

fn handle<K: PartialEq, M: Clone>(handles: &Handles<K, M>, name: &str, key: K, make: impl FnOnce() -> M) -> M {
    let mut handles = handles.lock();
    let at = handles.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
        handles.push((name.to_owned(), Vec::new()));
        handles.len() - 1
    });
    let (_, of_name) = &mut handles[at];
    if let Some((_, known)) = of_name.iter().find(|(known, _)| *known == key) {
        return known.clone();
    }
    let new = make();
    of_name.push((key, new.clone()));
    new
}

pub struct SchedulerMetrics {
    attempts: Counters,
    attempt_seconds: Histograms,
    results: Handles<&'static str, (Counter, Histogram)>,
    points: Handles<(&'static str, &'static str), Histogram>,
    events: Handles<&'static str, Histogram>,
    /// By plugin, extension point and status.
    plugins: Handles<(&'static str, &'static str), Histogram>,
    /// By the number of attempts.
    sli: Handles<u32, Histogram>,
    algorithm_seconds: Histogram,
    sli_seconds: Histograms,
    pod_attempts: Histogram,
    scheduled_after_flush: Counter,
    point_seconds: Histograms,
    plugin_seconds: Histograms,
    preemption_attempts: Counter,
    preemption_victims: Histogram,
    permit_wait_seconds: Histograms,
    event_seconds: Histograms,
    goroutines: Gauges,
    bindings: OnceLock<Gauge>,
    /// Shown by `operations/state_metrics`.
    pub evaluations: Evaluations,
    cycles: AtomicU64,
    /// Time of the last cycle that measured its plugins.
    sampled_at: Mutex<Option<Instant>>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    Scheduled,
    Unschedulable,
    Error,
}

impl AttemptResult {
    fn label(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Unschedulable => "unschedulable",
            Self::Error => "error",
        }
    }
}

pub fn labels<const N: usize>(pairs: [(&'static str, &str); N]) -> Labels {
    pairs.map(|(name, value)| (name, value.to_owned())).into()
}

impl SchedulerMetrics {
    pub fn new(env: &Env) -> Self {
        let metrics = env.metrics();
        let histograms = |name, help, buckets| metrics.histograms(name, help, buckets);
        Self {
            results: Mutex::default(),
            points: Mutex::default(),
            events: Mutex::default(),
            plugins: Mutex::default(),
            sli: Mutex::default(),
            attempts: metrics.counters(
                "scheduler_schedule_attempts_total",
                "[STABLE] Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be \
                 scheduled, while 'error' means an internal scheduler problem.",
            ),
            attempt_seconds: histograms(
                "scheduler_scheduling_attempt_duration_seconds",
                "[STABLE] Scheduling attempt latency in seconds (scheduling algorithm + binding)",
                ATTEMPT_SECONDS,
            ),
            algorithm_seconds: histograms(
                "scheduler_scheduling_algorithm_duration_seconds",
                "[BETA] Scheduling algorithm latency in seconds",
                ATTEMPT_SECONDS,
            )
            .get_or_create_owned(&vec![]),
            sli_seconds: histograms(
                "scheduler_pod_scheduling_sli_duration_seconds",
                "[BETA] E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and \
                 might involve multiple scheduling attempts.",
                SLI_SECONDS,
            ),
            pod_attempts: histograms(
                "scheduler_pod_scheduling_attempts",
                "[STABLE] Number of attempts to successfully schedule a pod.",
                ATTEMPTS,
            )
            .get_or_create_owned(&vec![]),
            scheduled_after_flush: metrics.counters(
                "scheduler_pod_scheduled_after_flush_total",
                "[ALPHA] Number of pods that were successfully scheduled after being flushed from unschedulablePods due to \
                 timeout. This metric helps detect potential queueing hint misconfigurations or event handling issues.",
            )
            .get_or_create_owned(&vec![]),
            point_seconds: histograms(
                "scheduler_framework_extension_point_duration_seconds",
                "[STABLE] Latency for running all plugins of a specific extension point.",
                POINT_SECONDS,
            ),
            plugin_seconds: histograms(
                "scheduler_plugin_execution_duration_seconds",
                "[BETA] Duration for running a plugin at a specific extension point.",
                PLUGIN_SECONDS,
            ),
            preemption_attempts: metrics.counters(
                "scheduler_preemption_attempts_total",
                "[STABLE] Total preemption attempts in the cluster till now",
            )
            .get_or_create_owned(&vec![]),
            preemption_victims: histograms(
                "scheduler_preemption_victims",
                "[STABLE] Number of selected preemption victims",
                VICTIMS,
            )
            .get_or_create_owned(&vec![]),
            permit_wait_seconds: histograms(
                "scheduler_permit_wait_duration_seconds",
                "[BETA] Duration of waiting on permit.",
                ATTEMPT_SECONDS,
            ),
            event_seconds: histograms(
                "scheduler_event_handling_duration_seconds",
                "[ALPHA] Event handling latency in seconds.",
                POINT_SECONDS,
            ),
            goroutines: metrics.gauges(
                "scheduler_goroutines",
                "[BETA] Number of running goroutines split by the work they do such as binding.",
            ),
            bindings: OnceLock::new(),
            evaluations: Evaluations::default(),
            cycles: AtomicU64::default(),
            sampled_at: Mutex::default(),
        }
    }

    /// Returns the clock of the next cycle. It measures plugins in some of the cycles, the first among them.
    pub fn timings(&self, env: &Env) -> Timings {
        let is_candidate = self.cycles.fetch_add(1, Ordering::Relaxed).is_multiple_of(PLUGIN_SAMPLE);
        Timings::new(env, is_candidate && self.takes_sample(env.now()))
    }

    fn takes_sample(&self, now: Instant) -> bool {
        let mut sampled_at = self.sampled_at.lock();
        let takes = sampled_at.is_none_or(|last| now - last >= SAMPLE_PERIOD);
        if takes {
            *sampled_at = Some(now);
        }
        takes
    }

    /// Counts what the cycle of an attempt has run.
    pub fn decided(
        &self,
        profile: &Profile,
        state: &CycleState,
        decided: &Result<Decision, CycleError>,
        took: Duration,
    ) {
        let decided = match decided {
            Ok(decision) => Ok(decision),
            Err(CycleError::NoFit(FitError::NoFit { diagnosis, .. })) => Err(&**diagnosis),
            Err(_) => return,
        };
        if decided.is_ok() {
            self.algorithm_seconds.observe(took.as_secs_f64());
        }
        self.evaluations.count(profile, state, decided);
    }

    /// Counts the measurements of a cycle.
    pub fn observe(&self, profile: &Profile, timings: &Timings) {
        for timing in &timings.points {
            self.point(profile, timing);
        }
        for timing in timings.take_plugins() {
            let (point, plugin, status) = (point_name(timing.point), timing.plugin, timing.status);
            let make = || {
                let labels = labels([("extension_point", point), ("plugin", plugin), ("status", status)]);
                self.plugin_seconds.get_or_create_owned(&labels)
            };
            handle(&self.plugins, plugin, (point, status), make).observe(timing.took.as_secs_f64());
        }
    }

    pub fn point(&self, profile: &Profile, timing: &PointTiming) {
        self.named_point(profile, point_name(timing.point), timing.status, timing.took);
    }

    /// Counts a run of an extension point, also one that a configuration cannot name.
    pub fn named_point(&self, profile: &Profile, point: &'static str, status: &'static str, took: Duration) {
        let name = &profile.scheduler_name;
        let make = || {
            let labels = labels([("extension_point", point), ("profile", name), ("status", status)]);
            self.point_seconds.get_or_create_owned(&labels)
        };
        handle(&self.points, name, (point, status), make).observe(took.as_secs_f64());
    }

    /// Counts the end of an attempt that took this long. `attempts` is its number, and `first` the age of the pod's first one.
    pub fn ended(&self, result: AttemptResult, profile: &Profile, took: Duration, attempts: u32, first: Duration) {
        let name = &profile.scheduler_name;
        let make = || {
            let labels = labels([("profile", name), ("result", result.label())]);
            (self.attempts.get_or_create_owned(&labels), self.attempt_seconds.get_or_create_owned(&labels))
        };
        let (results, seconds) = handle(&self.results, name, result.label(), make);
        results.inc();
        seconds.observe(took.as_secs_f64());
        if result == AttemptResult::Scheduled {
            self.pod_attempts.observe(f64::from(attempts));
            let make = || {
                let label = match attempts {
                    MANY_ATTEMPTS.. => format!("{MANY_ATTEMPTS}+"),
                    few => few.to_string(),
                };
                self.sli_seconds.get_or_create_owned(&labels([("attempts", &label)]))
            };
            handle(&self.sli, "", attempts.min(MANY_ATTEMPTS), make).observe(first.as_secs_f64());
        }
    }

    /// Counts a pod that no event has woken, but the time limit of unschedulable pods, and that was scheduled then.
    pub fn scheduled_after_flush(&self) {
        self.scheduled_after_flush.inc();
    }

    /// Counts a run of the PostFilter plugins. `victims` is above zero if a node was nominated.
    pub fn preempted(&self, victims: usize) {
        self.preemption_attempts.inc();
        if victims > 0 {
            self.preemption_victims.observe(victims as f64);
        }
    }

    pub fn waited(&self, status: &str, took: Duration) {
        self.permit_wait_seconds.get_or_create(&labels([("result", status)])).observe(took.as_secs_f64());
    }

    pub fn handled_event(&self, event: &'static str, took: Duration) {
        let make = || self.event_seconds.get_or_create_owned(&labels([("event", event)]));
        handle(&self.events, "", event, make).observe(took.as_secs_f64());
    }

    /// Changes the number of binding cycles that run.
    pub fn binding(&self, change: i64) {
        let make = || self.goroutines.get_or_create_owned(&labels([("operation", "binding")]));
        self.bindings.get_or_init(make).inc_by(change);
    }
}

fn point_name(point: Point) -> &'static str {
    match point {
        Point::PreEnqueue => "PreEnqueue",
        Point::QueueSort => "QueueSort",
        Point::PreFilter => "PreFilter",
        Point::Filter => "Filter",
        Point::PostFilter => "PostFilter",
        Point::PreScore => "PreScore",
        Point::Score => "Score",
        Point::Reserve => "Reserve",
        Point::Permit => "Permit",
        Point::PreBind => "PreBind",
        Point::Bind => "Bind",
        Point::PostBind => "PostBind",
    }
}

/// Returns the timing of an extension point that runs outside of a cycle.
pub fn timing(point: Point, status: &'static str, took: Duration) -> PointTiming {
    PointTiming { point, status, took }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn plugins_are_measured_in_one_cycle_of_a_hundred_and_at_most_once_a_second() {
        let env = Env::simulated(1);
        let metrics = SchedulerMetrics::new(&env);
        let sampled = |cycles: usize| (0..cycles).filter(|_| metrics.timings(&env).samples_plugins()).count();
        assert_eq!(sampled(1000), 1, "all in one instant");
        env.sleep(SAMPLE_PERIOD).await;
        assert_eq!([sampled(1), sampled(100)], [1, 0]);
        env.sleep(SAMPLE_PERIOD).await;
        assert_eq!([sampled(98), sampled(1)], [0, 0]);
        assert_eq!(sampled(1), 1);
    }
}
