//! Who came in: attempts of authentication and authorization.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/filters/metrics.go.

use crate::authn::UserInfo;
use component_base::env::Env;
use component_base::metrics::{Counters, Histograms};
use proto::Status;
use std::time::Duration;

/// Upper bounds in seconds, as kube-apiserver's: from 1 ms, doubled.
const SECONDS: &[f64] =
    &[0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384];

#[derive(Clone, Debug)]
pub struct Access {
    authentications: Counters,
    authentication_durations: Histograms,
    users: Counters,
    authorizations: Counters,
    authorization_durations: Histograms,
}

impl Access {
    pub(super) fn register(env: &Env) -> Self {
        let metrics = env.metrics();
        Self {
            authentications: metrics.counters("authentication_attempts", "Attempts to authenticate by result"),
            authentication_durations: metrics.histograms(
                "authentication_duration_seconds",
                "Time of authentication by result",
                SECONDS,
            ),
            users: metrics.counters("authenticated_user_requests", "Requests of known users by kind of user"),
            authorizations: metrics.counters("authorization_attempts_total", "Attempts to authorize by result"),
            authorization_durations: metrics.histograms(
                "authorization_duration_seconds",
                "Time of authorization by result",
                SECONDS,
            ),
        }
    }

    pub fn authenticated(&self, outcome: &Result<UserInfo, Status>, elapsed: Duration) {
        let (result, user) = match outcome {
            Ok(user) => ("success", Some(user)),
            Err(_) => ("failure", None),
        };
        let labels = vec![("result", result.to_owned())];
        self.authentications.get_or_create(&labels).inc();
        self.authentication_durations.get_or_create(&labels).observe(elapsed.as_secs_f64());
        if let Some(user) = user {
            self.users.get_or_create(&vec![("username", kind_of(&user.name).to_owned())]).inc();
        }
    }

    pub fn authorized(&self, outcome: &Result<(), Status>, elapsed: Duration) {
        let result = if outcome.is_ok() { "allowed" } else { "denied" };
        let labels = vec![("result", result.to_owned())];
        self.authorizations.get_or_create(&labels).inc();
        self.authorization_durations.get_or_create(&labels).observe(elapsed.as_secs_f64());
    }
}

/// Users are many, and a label is for few: the kinds that Kubernetes tells apart.
fn kind_of(name: &str) -> &str {
    match name {
        "admin" | "client" | "kube_proxy" | "kubelet" | "system:serviceaccount:kube-system:default" => name,
        mail if mail.contains('@') => "email_id",
        _ => "other",
    }
}

#[test]
fn users_are_of_few_kinds() {
    for (name, kind) in [("admin", "admin"), ("ann@example.com", "email_id"), ("system:node:n1", "other")] {
        assert_eq!(kind_of(name), kind);
    }
}
