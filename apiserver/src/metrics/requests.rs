//! Metrics of requests: their number, duration and size.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/metrics.

use component_base::env::Env;
use component_base::metrics::{Counters, Gauges, Histograms, Labels};
use parking_lot::RwLock;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use request::info::RequestInfo;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Bucket bounds of durations, in seconds.
const SECONDS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];
/// Bucket bounds of the sizes of answers and of watch events, in bytes.
const ANSWER_BYTES: &[f64] = &[1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
const EVENT_BYTES: &[f64] = &[1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131_072.0];

/// Verbs of resources, and methods of other paths. The others are counted as `OTHER`.
const VERBS: &[&str] =
    &["get", "list", "watch", "patch", "delete", "deletecollection", "post", "put", "head", "options", "connect"];

/// The metrics of all requests.
#[derive(Clone, Debug)]
pub struct Requests {
    total: Counters,
    /// The metrics of one request by the labels of `total`, so that a request needs one lookup.
    known: Arc<RwLock<BTreeMap<Labels, Arc<Meters>>>>,
    durations: Histograms,
    service_levels: Histograms,
    sizes: Histograms,
    in_flight: Gauges,
    long_running: Gauges,
    watch_events: Counters,
    watch_sizes: Histograms,
}

/// The metrics of requests with the same labels.
#[derive(Debug)]
struct Meters {
    total: Counter,
    duration: OnceLock<Histogram>,
    service_level: OnceLock<Histogram>,
    size: OnceLock<Histogram>,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    pub code: u16,
    pub elapsed: Duration,
    /// `None` for a stream.
    pub bytes: Option<u64>,
    pub dry_run: bool,
}

/// The metrics of one watch.
#[derive(Debug)]
pub struct WatchMeters {
    pub open: Gauge,
    pub events: Counter,
    pub sizes: Histogram,
}

impl Requests {
    pub(super) fn register(env: &Env) -> Self {
        let metrics = env.metrics();
        Self {
            total: metrics.counters("apiserver_request_total", "Requests by verb, resource and code"),
            known: Arc::default(),
            durations: metrics.histograms(
                "apiserver_request_duration_seconds",
                "Time from the arrival of a request to its answer",
                SECONDS,
            ),
            service_levels: metrics.histograms(
                "apiserver_request_sli_duration_seconds",
                "The same without the time that webhooks and queues took",
                SECONDS,
            ),
            sizes: metrics.histograms("apiserver_response_sizes", "Bytes of an answer", ANSWER_BYTES),
            in_flight: metrics.gauges("apiserver_current_inflight_requests", "Requests being worked on"),
            long_running: metrics.gauges("apiserver_longrunning_requests", "Open requests without a deadline"),
            watch_events: metrics.counters("apiserver_watch_events_total", "Events delivered to watches"),
            watch_sizes: metrics.histograms(
                "apiserver_watch_events_sizes",
                "Bytes of the events delivered to watches",
                EVENT_BYTES,
            ),
        }
    }

    /// Records an answered request. `served` is false if the server has no such resource. The request is then counted
    /// without the names in its URL, because clients could invent any number of them.
    pub fn observe(&self, info: &RequestInfo, served: bool, answered: Answered) {
        let kind = if served { labels_of(info) } else { labels_of(&RequestInfo::default()) };
        let is_long = info.is_long_running();
        let mut labels = Labels::with_capacity(kind.len() + 3);
        labels.push(("code", answered.code.to_string()));
        labels.extend(kind);
        // The labels of the other metrics are slices of these.
        let kind = 1..labels.len();
        labels.push(("dry_run", if is_long { String::new() } else { dry_run(answered) }));
        let kind_and_dry_run = 1..labels.len();
        labels.push(("system_client", String::new()));
        let meters = self.meters(&labels);
        meters.total.inc();
        if is_long {
            return;
        }
        let of = |family: &Histograms, part: &[(&'static str, String)]| family.get_or_create_owned(&part.to_vec());
        let seconds = answered.elapsed.as_secs_f64();
        meters.duration.get_or_init(|| of(&self.durations, &labels[kind_and_dry_run])).observe(seconds);
        meters.service_level.get_or_init(|| of(&self.service_levels, &labels[kind.clone()])).observe(seconds);
        if let (Some(bytes), "get" | "list") = (answered.bytes, info.verb.as_str()) {
            meters.size.get_or_init(|| of(&self.sizes, &labels[kind])).observe(bytes as f64);
        }
    }

    /// Returns the metrics of requests with these labels.
    fn meters(&self, labels: &Labels) -> Arc<Meters> {
        if let Some(known) = self.known.read().get(labels) {
            return known.clone();
        }
        let total = self.total.get_or_create_owned(labels);
        let (duration, service_level, size) = Default::default();
        let meters = Arc::new(Meters { total, duration, service_level, size });
        self.known.write().entry(labels.clone()).or_insert(meters).clone()
    }

    /// Returns the gauge of requests in flight, for mutating requests or for the others.
    pub fn in_flight(&self, info: &RequestInfo) -> Gauge {
        let kind = if info.is_mutating() { "mutating" } else { "readOnly" }.to_owned();
        self.in_flight.get_or_create(&vec![("request_kind", kind)]).clone()
    }

    /// Returns the metrics of the watches of one resource.
    pub fn watch(&self, info: &RequestInfo) -> WatchMeters {
        let names =
            vec![("group", info.group.clone()), ("resource", info.resource.clone()), ("version", info.version.clone())];
        WatchMeters {
            open: self.long_running.get_or_create(&labels_of(info)).clone(),
            events: self.watch_events.get_or_create(&names).clone(),
            sizes: self.watch_sizes.get_or_create(&names).clone(),
        }
    }
}

fn dry_run(answered: Answered) -> String {
    if answered.dry_run { "All".to_owned() } else { String::new() }
}

fn labels_of(info: &RequestInfo) -> Labels {
    vec![
        ("component", "apiserver".to_owned()),
        ("group", info.group.clone()),
        ("resource", info.resource.clone()),
        ("scope", scope(info).to_owned()),
        ("subresource", subresource(info)),
        ("verb", verb(info)),
        ("version", info.version.clone()),
    ]
}

/// Returns the label `verb`: `LIST`, `WATCH`, `POST`, …. Creations and updates are counted by their methods, unknown
/// methods as `OTHER`.
fn verb(info: &RequestInfo) -> String {
    match info.verb.as_str() {
        "create" => "POST".to_owned(),
        "update" => "PUT".to_owned(),
        known if VERBS.contains(&known) => known.to_ascii_uppercase(),
        _ => "OTHER".to_owned(),
    }
}

/// Returns the label `subresource`. A path that is not a resource has its first segment there, if it is a known one.
fn subresource(info: &RequestInfo) -> String {
    if info.is_resource {
        return info.subresource.clone();
    }
    let first = info.path.split('/').find(|s| !s.is_empty()).unwrap_or_default();
    let known = ["api", "apis", "healthz", "livez", "readyz", "metrics", "openapi", "version", "openid"];
    if known.contains(&first) { format!("/{first}") } else { String::new() }
}

fn scope(info: &RequestInfo) -> &'static str {
    match (info.is_resource, info.name.is_empty(), info.namespace.is_empty()) {
        (false, ..) => "",
        (true, false, _) => "resource",
        (true, true, false) => "namespace",
        (true, true, true) => "cluster",
    }
}
