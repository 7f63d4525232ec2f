//! Counts requests and their durations.
//!
//! Corresponds to k8s.io/client-go/tools/metrics.

use component_base::metrics::{Counters, Histograms, Metrics};
use http::{Method, StatusCode};
use parking_lot::RwLock;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use std::sync::Arc;
use std::time::Duration;

const REQUESTS_HELP: &str = "Number of HTTP requests, partitioned by status code, method, and host.";
const DURATION_HELP: &str = "Request latency in seconds. Broken down by verb, and host.";
const DURATION_S: &[f64] = &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

/// The metrics of the requests to one server.
pub(crate) struct RequestMetrics {
    /// The server's name.
    host: String,
    requests: Counters,
    durations: Histograms,
    /// Labels are looked up once for each method and code. There are few of both.
    known: RwLock<Vec<Arc<Known>>>,
}

/// The metrics of one method and code.
struct Known {
    method: Method,
    /// `None` stands for requests without an answer.
    code: Option<StatusCode>,
    count: Counter,
    duration: Histogram,
}

impl RequestMetrics {
    pub(crate) fn new(metrics: &Metrics, host: String) -> Self {
        Self {
            host,
            requests: metrics.counters("rest_client_requests_total", REQUESTS_HELP),
            durations: metrics.histograms("rest_client_request_duration_seconds", DURATION_HELP, DURATION_S),
            known: RwLock::default(),
        }
    }

    pub(crate) fn observe(&self, method: &Method, code: Option<StatusCode>, took: Duration) {
        let find = |all: &[Arc<Known>]| all.iter().find(|one| one.method == *method && one.code == code).cloned();
        let known = find(&self.known.read());
        let known = known.unwrap_or_else(|| {
            let mut all = self.known.write();
            find(&all).unwrap_or_else(|| {
                let new = Arc::new(self.look_up(method, code));
                all.push(new.clone());
                new
            })
        });
        known.count.inc();
        known.duration.observe(took.as_secs_f64());
    }

    fn look_up(&self, method: &Method, code: Option<StatusCode>) -> Known {
        let (verb, host) = (method.to_string(), self.host.clone());
        let text = code.map_or("<error>".to_owned(), |code| code.as_str().to_owned());
        let labels = vec![("code", text), ("host", host.clone()), ("method", verb.clone())];
        Known {
            method: method.clone(),
            code,
            count: self.requests.get_or_create_owned(&labels),
            duration: self.durations.get_or_create_owned(&vec![("host", host), ("verb", verb)]),
        }
    }
}
