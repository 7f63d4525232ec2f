//! The server's own metrics, under the names that kube-apiserver gives them.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/metrics.

use crate::request::info::RequestInfo;
use component_base::env::Env;
use component_base::metrics::{Counters, Gauges, Histograms, Labels};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use std::time::Duration;

/// Upper bounds in seconds, as kube-apiserver's.
const BUCKETS: &[f64] =
    &[0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 30.0, 60.0];

/// What is counted and measured.
#[derive(Clone, Debug)]
pub struct Metrics {
    requests: Counters,
    durations: Histograms,
    in_flight: Gauges,
    long_running: Gauges,
    watch_events: Counters,
}

impl Metrics {
    pub fn register(env: &Env) -> Self {
        Self {
            requests: env.metrics().counters("apiserver_request_total", "Requests by verb, resource and code"),
            durations: env.metrics().histograms(
                "apiserver_request_duration_seconds",
                "Time from the arrival of a request to its answer",
                BUCKETS,
            ),
            in_flight: env.metrics().gauges("apiserver_current_inflight_requests", "Requests being worked on"),
            long_running: env.metrics().gauges("apiserver_longrunning_requests", "Open requests without a deadline"),
            watch_events: env.metrics().counters("apiserver_watch_events_total", "Events delivered to watches"),
        }
    }

    /// A request is answered.
    pub fn observe(&self, info: &RequestInfo, code: u16, elapsed: Duration) {
        let mut labels = labels_of(info);
        if !info.is_long_running() {
            self.durations.get_or_create(&labels).observe(elapsed.as_secs_f64());
        }
        labels.insert(0, ("code", code.to_string()));
        self.requests.get_or_create(&labels).inc();
    }

    pub fn in_flight(&self, info: &RequestInfo) -> Gauge {
        let kind = if info.is_mutating() { "mutating" } else { "readOnly" }.to_owned();
        self.in_flight.get_or_create(&vec![("request_kind", kind)]).clone()
    }

    /// The gauge of open watches and the counter of events of one resource.
    pub fn watch(&self, info: &RequestInfo) -> (Gauge, Counter) {
        let names =
            vec![("group", info.group.clone()), ("resource", info.resource.clone()), ("version", info.version.clone())];
        let open = self.long_running.get_or_create(&labels_of(info)).clone();
        (open, self.watch_events.get_or_create(&names).clone())
    }
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

/// `LIST`, `WATCH`, `POST`, …: Kubernetes counts creations as the methods they are.
fn verb(info: &RequestInfo) -> String {
    match info.verb.as_str() {
        "create" => "POST".to_owned(),
        "update" => "PUT".to_owned(),
        other => other.to_ascii_uppercase(),
    }
}

/// Paths that are no resources have their first segment for a name, so that no client can invent more.
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
