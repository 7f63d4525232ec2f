//! The server's own metrics, under the names, labels and buckets that kube-apiserver gives them: a dashboard for a real
//! cluster finds what it looks for.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/metrics and its like beside other packages.

mod objects;
mod requests;
#[cfg(test)]
mod tests;

use access::metrics::AccessMetrics;
use component_base::env::Env;
use component_base::version;
pub use objects::show_objects;
pub use requests::{Answered, Requests, WatchMeters};

/// What the stages of a request count and measure.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub requests: Requests,
    pub access: AccessMetrics,
}

impl Metrics {
    /// `reported` is the version that clients are told.
    pub fn register(env: &Env, reported: &str) -> Self {
        let build = env.metrics().gauges("kubernetes_build_info", "Which release this is");
        build.get_or_create(&version::Info::of_server(reported).labels()).set(1);
        let own = env.metrics().gauges("orrery_build_info", "Which build of Orrery this is, and what it models");
        own.get_or_create(&version::own_labels()).set(1);
        Self { requests: Requests::register(env), access: AccessMetrics::register(env) }
    }
}
