//! `/metrics/slis`: the results of health checks, by which an availability can be computed.
//!
//! Corresponds to k8s.io/component-base/metrics/prometheus/slis.

use crate::metrics::{Counters, Gauges, Metrics};

/// The results of the checks of one server. They are in a page of their own, so that it may be scraped often.
pub struct HealthMetrics {
    metrics: Metrics,
    last: Gauges,
    all: Counters,
}

impl Default for HealthMetrics {
    fn default() -> Self {
        let metrics = Metrics::default();
        Self {
            last: metrics
                .gauges("kubernetes_healthcheck", "[STABLE] This metric records the result of a single healthcheck."),
            all: metrics.counters(
                "kubernetes_healthchecks_total",
                "[STABLE] This metric records the results of all healthcheck.",
            ),
            metrics,
        }
    }
}

impl HealthMetrics {
    /// Notes the result of a check of an endpoint: `healthz`, `livez` or `readyz`.
    pub fn observe(&self, check: &str, endpoint: &str, succeeded: bool) {
        let (name, kind) = (("name", check.to_owned()), ("type", endpoint.to_owned()));
        let status = ("status", if succeeded { "success" } else { "error" }.to_owned());
        self.last.get_or_create(&vec![name.clone(), kind.clone()]).set(succeeded.into());
        self.all.get_or_create(&vec![name, status, kind]).inc();
    }

    /// Returns the text of the page.
    pub fn page(&self) -> String {
        self.metrics.encode()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_result_and_the_number_of_each_are_shown() {
        let metrics = HealthMetrics::default();
        for (check, succeeded) in [("ping", true), ("cache", true), ("cache", false), ("ping", true)] {
            metrics.observe(check, "readyz", succeeded);
        }
        let page = metrics.page();
        for line in [
            r#"kubernetes_healthcheck{name="ping",type="readyz"} 1"#,
            r#"kubernetes_healthcheck{name="cache",type="readyz"} 0"#,
            r#"kubernetes_healthchecks_total{name="ping",status="success",type="readyz"} 2"#,
            r#"kubernetes_healthchecks_total{name="cache",status="success",type="readyz"} 1"#,
            r#"kubernetes_healthchecks_total{name="cache",status="error",type="readyz"} 1"#,
        ] {
            assert!(page.lines().any(|one| one == line), "{line} in {page}");
        }
    }
}
