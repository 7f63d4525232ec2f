//! Metrics of API Priority and Fairness, by priority level and by FlowSchema.
//!
//! Corresponds to k8s.io/apiserver/pkg/util/flowcontrol/metrics.

use crate::demand::Smoothed;
use crate::occupancy::OverTime;
use crate::priority_level::Bounds;
use crate::queue_set::{DispatchObserver, QueueSet};
use crate::reads_and_writes::ByPhase;
use component_base::env::Env;
use component_base::metrics::{Counters, FloatGauges, Gauges, Histograms, Labels, SetHistogram, SetHistograms};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Upper bounds, as kube-apiserver's: of seconds, of queue lengths, of seats.
const WAIT_SECONDS: &[f64] = &[0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];
const EXECUTION_SECONDS: &[f64] = &[0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];
const LENGTHS: &[f64] = &[0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];
const SEATS: &[f64] = &[1.0, 2.0, 4.0, 10.0, 20.0, 40.0, 80.0];
const WATCHES: &[f64] = &[0.0, 1.0, 10.0, 100.0, 1000.0, 10_000.0];

type FloatGauge = Gauge<f64, AtomicU64>;

/// The metric families, with labels for the level and the schema.
#[derive(Clone, Debug)]
pub struct FlowMetrics {
    executing: Gauges,
    executing_seats: Gauges,
    in_queue: Gauges,
    in_queue_seats: Gauges,
    dispatched: Counters,
    rejected: Counters,
    waits: Histograms,
    executions: Histograms,
    lengths: Histograms,
    seats: Histograms,
    watches: Histograms,
    no_accommodation: Counters,
    limits: Gauges,
    nominal: Gauges,
    lower: Gauges,
    upper: Gauges,
    highest: FloatGauges,
    average: FloatGauges,
    deviation: FloatGauges,
    smoothed: FloatGauges,
    targets: FloatGauges,
    current_r: FloatGauges,
    dispatch_r: FloatGauges,
    latest_s: FloatGauges,
    next_s: FloatGauges,
    next_discounted_s: FloatGauges,
    request_utilization: SetHistograms,
    seat_utilization: SetHistograms,
    demand: SetHistograms,
    /// For each phase, the histogram of read-only and that of mutating requests.
    kinds: [[SetHistogram; 2]; 2],
    pub fair_fraction: FloatGauge,
}

impl FlowMetrics {
    pub fn register(env: &Env) -> Self {
        let metrics = env.metrics();
        let fraction = metrics.float_gauges(
            "apiserver_flowcontrol_seat_fair_frac",
            "Fraction of the target of each level, that is at none of its bounds, that it gets",
        );
        let kinds = metrics.set_histograms(
            "apiserver_flowcontrol_read_vs_write_current_requests",
            "For how long, in nanoseconds, so many requests that read or write were served or waited",
        );
        let of_phase = |phase: &str| {
            ["readOnly", "mutating"].map(|kind| {
                let labels = vec![("phase", phase.to_owned()), ("request_kind", kind.to_owned())];
                kinds.get_or_create_owned(&labels)
            })
        };
        Self {
            kinds: ["waiting", "executing"].map(of_phase),
            executing: metrics.gauges(
                "apiserver_flowcontrol_current_executing_requests",
                "Requests being served, or watches being started",
            ),
            executing_seats: metrics
                .gauges("apiserver_flowcontrol_current_executing_seats", "Seats of the requests being served"),
            in_queue: metrics.gauges("apiserver_flowcontrol_current_inqueue_requests", "Requests that wait in queues"),
            in_queue_seats: metrics
                .gauges("apiserver_flowcontrol_current_inqueue_seats", "Seats of the requests that wait in queues"),
            dispatched: metrics
                .counters("apiserver_flowcontrol_dispatched_requests_total", "Requests that got their seats"),
            rejected: metrics.counters("apiserver_flowcontrol_rejected_requests_total", "Requests that were refused"),
            waits: metrics.histograms(
                "apiserver_flowcontrol_request_wait_duration_seconds",
                "Time that a request spent waiting",
                WAIT_SECONDS,
            ),
            executions: metrics.histograms(
                "apiserver_flowcontrol_request_execution_seconds",
                "Time that a request held its seats",
                EXECUTION_SECONDS,
            ),
            lengths: metrics.histograms(
                "apiserver_flowcontrol_request_queue_length_after_enqueue",
                "Requests that wait, seen by each that begins to",
                LENGTHS,
            ),
            seats: metrics.histograms(
                "apiserver_flowcontrol_work_estimated_seats",
                "Seats that a request is thought to need",
                SEATS,
            ),
            watches: metrics.histograms(
                "apiserver_flowcontrol_watch_count_samples",
                "Watches that the event of a write goes to, seen by each write",
                WATCHES,
            ),
            no_accommodation: metrics.counters(
                "apiserver_flowcontrol_request_dispatch_no_accommodation_total",
                "Times that the request whose turn it was had to wait on for lack of seats",
            ),
            limits: metrics.gauges("apiserver_flowcontrol_current_limit_seats", "Seats that a level has now"),
            nominal: metrics.gauges("apiserver_flowcontrol_nominal_limit_seats", "Seats of a level by its shares"),
            lower: metrics
                .gauges("apiserver_flowcontrol_lower_limit_seats", "Seats of a level when it lends what it may"),
            upper: metrics
                .gauges("apiserver_flowcontrol_upper_limit_seats", "Seats of a level when it borrows what it may"),
            highest: metrics.float_gauges(
                "apiserver_flowcontrol_demand_seats_high_watermark",
                "Most seats that a level wanted in the last period",
            ),
            average: metrics.float_gauges(
                "apiserver_flowcontrol_demand_seats_average",
                "Seats that a level wanted on average in the last period",
            ),
            deviation: metrics.float_gauges(
                "apiserver_flowcontrol_demand_seats_stdev",
                "Standard deviation of the seats that a level wanted in the last period",
            ),
            smoothed: metrics.float_gauges(
                "apiserver_flowcontrol_demand_seats_smoothed",
                "Seats that a level wanted, smoothed over periods",
            ),
            targets: metrics
                .float_gauges("apiserver_flowcontrol_target_seats", "Seats that a level is meant to get, if it can"),
            current_r: metrics.float_gauges("apiserver_flowcontrol_current_r", "Virtual time of a level"),
            dispatch_r: metrics.float_gauges(
                "apiserver_flowcontrol_dispatch_r",
                "Virtual time of a level when the last request was served",
            ),
            latest_s: metrics.float_gauges(
                "apiserver_flowcontrol_latest_s",
                "Virtual time at which the last request that was served began",
            ),
            next_discounted_s: metrics.float_gauges(
                "apiserver_flowcontrol_next_discounted_s_bounds",
                "Least and greatest virtual time at which a queue of a level goes on, less the work that is thought to go on",
            ),
            next_s: metrics.float_gauges(
                "apiserver_flowcontrol_next_s_bounds",
                "Least and greatest virtual time at which a queue of a level goes on",
            ),
            request_utilization: metrics.set_histograms(
                "apiserver_flowcontrol_priority_level_request_utilization",
                "For how long, in nanoseconds, requests were served or waited, as a part of what there is room for",
            ),
            seat_utilization: metrics.set_histograms(
                "apiserver_flowcontrol_priority_level_seat_utilization",
                "For how long, in nanoseconds, such a part of a level's seats was in use",
            ),
            demand: metrics.set_histograms(
                "apiserver_flowcontrol_demand_seats",
                "For how long, in nanoseconds, so many seats were wanted, as a multiple of a level's own",
            ),
            fair_fraction: fraction.get_or_create_owned(&vec![]),
        }
    }

    pub fn level(&self, name: &str) -> LevelMeters {
        let labels: Labels = vec![("priority_level", name.to_owned())];
        let bounds = |family: &FloatGauges| {
            ["min", "max"]
                .map(|bound| family.get_or_create_owned(&[vec![("bound", bound.to_owned())], labels.clone()].concat()))
        };
        let in_phase = |phase: &str| [vec![("phase", phase.to_owned())], labels.clone()].concat();
        LevelMeters {
            executing: self.request_utilization.get_or_create_owned(&in_phase("executing")),
            waiting: self.request_utilization.get_or_create_owned(&in_phase("waiting")),
            seats: self.seat_utilization.get_or_create_owned(&in_phase("executing")),
            demand: self.demand.get_or_create_owned(&labels),
            limit: self.limits.get_or_create_owned(&labels),
            nominal: self.nominal.get_or_create_owned(&labels),
            lower: self.lower.get_or_create_owned(&labels),
            upper: self.upper.get_or_create_owned(&labels),
            highest: self.highest.get_or_create_owned(&labels),
            average: self.average.get_or_create_owned(&labels),
            deviation: self.deviation.get_or_create_owned(&labels),
            smoothed: self.smoothed.get_or_create_owned(&labels),
            current_r: self.current_r.get_or_create_owned(&labels),
            dispatch_r: self.dispatch_r.get_or_create_owned(&labels),
            latest_s: self.latest_s.get_or_create_owned(&labels),
            next_s: bounds(&self.next_s),
            next_discounted_s: bounds(&self.next_discounted_s),
        }
    }

    pub fn flow(&self, level: &str, schema: &str) -> FlowMeters {
        let labels = labels(level, schema);
        let with_first = |name, value: &str| [vec![(name, value.to_owned())], labels.clone()].concat();
        let with_type = |kind: &str| [labels.clone(), vec![("type", kind.to_owned())]].concat();
        FlowMeters {
            executing: self.executing.get_or_create_owned(&labels),
            executing_seats: self.executing_seats.get_or_create_owned(&labels),
            in_queue: self.in_queue.get_or_create_owned(&labels),
            in_queue_seats: self.in_queue_seats.get_or_create_owned(&labels),
            dispatched: self.dispatched.get_or_create_owned(&labels),
            waits: ["false", "true"].map(|execute| self.waits.get_or_create_owned(&with_first("execute", execute))),
            executions: ["regular", "watch"].map(|kind| self.executions.get_or_create_owned(&with_type(kind))),
            queue_length: self.lengths.get_or_create_owned(&labels),
            seats: self.seats.get_or_create_owned(&labels),
            watches: self.watches.get_or_create_owned(&labels),
            no_accommodation: self.no_accommodation.get_or_create_owned(&labels),
        }
    }

    pub fn show(&self, by_phase: &ByPhase) {
        let shown = self.kinds.as_flattened().iter().zip(by_phase.as_flattened());
        shown.for_each(|(shown, over_time)| set(shown, over_time));
    }

    pub fn rejected(&self, level: &str, schema: &str, reason: &'static str) {
        let labels = [labels(level, schema), vec![("reason", reason.to_owned())]].concat();
        self.rejected.get_or_create(&labels).inc();
    }

    pub fn target(&self, level: &str, seats: f64) {
        self.targets.get_or_create(&vec![("priority_level", level.to_owned())]).set(seats);
    }
}

fn labels(level: &str, schema: &str) -> Labels {
    vec![("flow_schema", schema.to_owned()), ("priority_level", level.to_owned())]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindOfRequest {
    Regular,
    Watch,
}

/// The meters of one schema, looked up once.
#[derive(Clone, Debug)]
pub struct FlowMeters {
    executing: Gauge,
    executing_seats: Gauge,
    in_queue: Gauge,
    in_queue_seats: Gauge,
    dispatched: Counter,
    /// Waiting times of requests that were not served, and of those that were.
    waits: [Histogram; 2],
    executions: [Histogram; 2],
    pub queue_length: Histogram,
    pub seats: Histogram,
    pub watches: Histogram,
    pub no_accommodation: Counter,
}

impl FlowMeters {
    pub fn queue(&self, seats: usize) {
        self.in_queue.inc();
        self.in_queue_seats.inc_by(seats as i64);
    }

    pub fn leave_queue(&self, seats: usize) {
        self.in_queue.dec();
        self.in_queue_seats.dec_by(seats as i64);
    }

    pub fn waited(&self, served: bool, waited: Duration) {
        self.waits[usize::from(served)].observe(waited.as_secs_f64());
    }

    pub fn begin(&self, seats: usize) {
        self.dispatched.inc();
        self.executing.inc();
        self.executing_seats.inc_by(seats as i64);
    }

    pub fn end(&self, seats: usize, kind: KindOfRequest, elapsed: Duration) {
        self.executing.dec();
        self.executing_seats.dec_by(seats as i64);
        self.executions[kind as usize].observe(elapsed.as_secs_f64());
    }
}

/// The meters of one level.
#[derive(Clone, Debug)]
pub struct LevelMeters {
    pub limit: Gauge,
    nominal: Gauge,
    lower: Gauge,
    upper: Gauge,
    highest: FloatGauge,
    average: FloatGauge,
    deviation: FloatGauge,
    smoothed: FloatGauge,
    current_r: FloatGauge,
    dispatch_r: FloatGauge,
    latest_s: FloatGauge,
    next_s: [FloatGauge; 2],
    next_discounted_s: [FloatGauge; 2],
    executing: SetHistogram,
    waiting: SetHistogram,
    seats: SetHistogram,
    demand: SetHistogram,
}

impl LevelMeters {
    pub fn show_bounds(&self, bounds: Bounds) {
        self.nominal.set(bounds.nominal as i64);
        self.lower.set(bounds.lower as i64);
        self.upper.set(bounds.upper as i64);
    }

    pub fn show_demand(&self, demand: &Smoothed) {
        self.highest.set(demand.highest as f64);
        self.average.set(demand.average);
        self.deviation.set(demand.deviation);
        self.smoothed.set(demand.smoothed);
    }

    pub fn show<T: DispatchObserver>(&self, set: &QueueSet<T>) {
        self.current_r.set(set.current_r);
        self.dispatch_r.set(set.dispatch_r);
        self.latest_s.set(set.latest_s);
        let bounds = [(&self.next_s, set.next_dispatch_bounds()), (&self.next_discounted_s, set.discounted_bounds())];
        for ([least, most], bounds) in bounds {
            let bounds = bounds.unwrap_or_default();
            least.set(bounds.0);
            most.set(bounds.1);
        }
        let known = &set.occupancy;
        self::set(&self.executing, &known.executing);
        self::set(&self.waiting, &known.waiting);
        self::set(&self.seats, &known.seats);
        self::set(&self.demand, &known.demand);
    }
}

fn set(shown: &SetHistogram, over_time: &OverTime) {
    shown.set(over_time.sum(), over_time.buckets().collect());
}
