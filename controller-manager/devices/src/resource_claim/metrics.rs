//! The metrics of the resource claim controller.
//!
//! Corresponds to pkg/controller/resourceclaim/metrics.

use component_base::env::Env;
use component_base::metrics::Counters;
use serde_json::Value;

#[derive(Clone)]
pub struct Metrics {
    creates: Counters,
}

impl Metrics {
    pub fn new(env: &Env) -> Self {
        let help = "Number of ResourceClaims creation requests, categorized by creation status and admin access";
        Self { creates: env.metrics().counters("resourceclaim_controller_creates_total", help) }
    }

    /// Counts a request that created a claim, or failed to.
    pub fn created(&self, claim: &Value, is_success: bool) {
        let requests = claim.pointer("/spec/devices/requests").and_then(Value::as_array);
        let is_admin = requests.into_iter().flatten().any(|request| request["exactly"]["adminAccess"] == true);
        let status = if is_success { "success" } else { "failure" };
        let labels = vec![("status", status.to_owned()), ("admin_access", is_admin.to_string())];
        self.creates.get_or_create(&labels).inc();
    }
}
