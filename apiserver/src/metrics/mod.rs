//! The metrics of the API server, with the names, labels and buckets of kube-apiserver, so that dashboards work
//! unchanged.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/metrics and to the metrics of other packages.

mod objects;
mod requests;
#[cfg(test)]
mod tests;

use access::metrics::AccessMetrics;
use component_base::env::Env;
use component_base::version;
pub use objects::register_object_counts;
pub use requests::{Answered, Requests, WatchMeters};

/// The metrics that the stages of a request update.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub requests: Requests,
    pub access: AccessMetrics,
}

impl Metrics {
    /// Registers the metrics. `reported` is the version that `/version` reports.
    pub fn register(env: &Env, reported: &str) -> Self {
        let build = env.metrics().gauges("kubernetes_build_info", "Which release this is");
        build.get_or_create(&version::Info::of_server(reported).labels()).set(1);
        let own = env.metrics().gauges("orrery_build_info", "Which build of Orrery this is, and what it models");
        own.get_or_create(&version::own_labels()).set(1);
        Self { requests: Requests::register(env), access: AccessMetrics::register(env) }
    }
}
