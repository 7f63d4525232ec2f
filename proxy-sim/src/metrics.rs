//! The metrics of the proxies, with kube-proxy's names.
//!
//! Corresponds to pkg/proxy/metrics. kube-proxy counts on each node; here every change is counted once for all nodes.

use component_base::env::Env;
use component_base::metrics::{Counters, FloatGauges};

/// The metrics of all proxies.
#[derive(Clone)]
pub struct Metrics {
    services: Counters,
    endpoints: Counters,
    last_sync: FloatGauges,
}

impl Metrics {
    pub fn register(env: &Env) -> Self {
        let metrics = env.metrics();
        Self {
            services: metrics
                .counters("kubeproxy_sync_proxy_rules_service_changes_total", "Cumulative proxy rules Service changes"),
            endpoints: metrics.counters(
                "kubeproxy_sync_proxy_rules_endpoint_changes_total",
                "Cumulative proxy rules Endpoint changes",
            ),
            last_sync: metrics.float_gauges(
                "kubeproxy_sync_proxy_rules_last_timestamp_seconds",
                "The last time proxy rules were successfully synced",
            ),
        }
    }

    pub fn service_changed(&self) {
        self.services.get_or_create(&ipv4()).inc();
    }

    pub fn endpoints_changed(&self) {
        self.endpoints.get_or_create(&ipv4()).inc();
    }

    pub fn synced(&self, env: &Env) {
        self.last_sync.get_or_create(&ipv4()).set(env.wall().as_second() as f64);
    }
}

fn ipv4() -> Vec<(&'static str, String)> {
    vec![("ip_family", "IPv4".to_owned())]
}
