//! Metrics of authentication and authorization: attempts by result, and their durations.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/filters/metrics.go.

use component_base::env::Env;
use component_base::metrics::{Counters, Histograms};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use proto::Status;
use request::UserInfo;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Upper bounds in seconds, as kube-apiserver's: from 1 ms, doubled.
const SECONDS: &[f64] =
    &[0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384];

#[derive(Clone, Debug)]
pub struct AccessMetrics {
    authentications: Attempts,
    users: Counters,
    /// The counter of users of kind [`OTHER`], which nearly every request needs.
    others: Arc<OnceLock<Counter>>,
    authorizations: Attempts,
}

/// Counter and duration histogram of attempts, by result.
#[derive(Clone, Debug)]
struct Attempts {
    counters: Counters,
    durations: Histograms,
    /// The meters of the results observed so far, in the order of `RESULTS`.
    at_hand: Arc<[OnceLock<(Counter, Histogram)>; RESULTS.len()]>,
}

const RESULTS: [&str; 5] = ["success", "failure", "allowed", "denied", "error"];
const OTHER: &str = "other";

impl Attempts {
    fn observe(&self, result: &str, elapsed: Duration) {
        let made = || {
            let labels = vec![("result", result.to_owned())];
            (self.counters.get_or_create_owned(&labels), self.durations.get_or_create_owned(&labels))
        };
        let place = RESULTS.iter().position(|known| *known == result).expect("every result is in the list");
        let (counter, duration) = self.at_hand[place].get_or_init(made);
        counter.inc();
        duration.observe(elapsed.as_secs_f64());
    }
}

impl AccessMetrics {
    pub fn register(env: &Env) -> Self {
        let metrics = env.metrics();
        let attempts = |counter, about, duration, time| Attempts {
            counters: metrics.counters(counter, about),
            durations: metrics.histograms(duration, time, SECONDS),
            at_hand: Arc::default(),
        };
        Self {
            authentications: attempts(
                "authentication_attempts",
                "Attempts to authenticate by result",
                "authentication_duration_seconds",
                "Time of authentication by result",
            ),
            users: metrics.counters("authenticated_user_requests", "Requests of known users by kind of user"),
            others: Arc::default(),
            authorizations: attempts(
                "authorization_attempts_total",
                "Attempts to authorize by result",
                "authorization_duration_seconds",
                "Time of authorization by result",
            ),
        }
    }

    pub fn authenticated(&self, outcome: &Result<UserInfo, Status>, elapsed: Duration) {
        self.authentications.observe(if outcome.is_ok() { "success" } else { "failure" }, elapsed);
        let Ok(user) = outcome else { return };
        let of_kind = |kind: &str| self.users.get_or_create_owned(&vec![("username", kind.to_owned())]);
        match kind_of(&user.name) {
            OTHER => self.others.get_or_init(|| of_kind(OTHER)).inc(),
            kind => of_kind(kind).inc(),
        };
    }

    /// `refused` is the answer of the authorizers where they do not allow the request.
    pub fn authorized(&self, refused: Option<&Status>, elapsed: Duration) {
        let result = match refused {
            None => "allowed",
            Some(status) if status.code == 500 => "error",
            Some(_) => "denied",
        };
        self.authorizations.observe(result, elapsed);
    }
}

/// Returns the kind of a user. A metric label must have few values, so only the kinds that Kubernetes names have their own.
fn kind_of(name: &str) -> &str {
    match name {
        "admin" | "client" | "kube_proxy" | "kubelet" | "system:serviceaccount:kube-system:default" => name,
        mail if mail.contains('@') => "email_id",
        _ => OTHER,
    }
}

#[test]
fn users_are_of_few_kinds() {
    for (name, kind) in [("admin", "admin"), ("ann@example.com", "email_id"), ("system:node:n1", "other")] {
        assert_eq!(kind_of(name), kind);
    }
}
