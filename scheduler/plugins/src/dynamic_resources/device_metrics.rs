//! `DeviceMetrics`, the claims that the plugin makes, and the waits for drivers.
//!
//! Corresponds to the metrics of pkg/scheduler/framework/plugins/dynamicresources.

use component_base::env::Env;
use component_base::metrics::{Counters, Histograms, Labels, exponential};
use proto::kinds::api::resource::v1::ResourceClaim;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const WAIT_SECONDS: &[f64] = &exponential::<14>(0.1, 2.0);

#[derive(Clone)]
pub struct DeviceMetrics {
    creations: Counters,
    allocations: Counters,
    wait_seconds: Histograms,
}

impl DeviceMetrics {
    pub fn new(env: &Env) -> Self {
        let metrics = env.metrics();
        Self {
            creations: metrics.counters(
                "scheduler_resourceclaim_creates_total",
                "[ALPHA] Number of ResourceClaims creation requests within scheduler",
            ),
            allocations: metrics.counters(
                "scheduler_dra_bindingconditions_allocations_total",
                "[ALPHA] Number of allocations using devices with BindingConditions, counted per driver per scheduling attempt",
            ),
            wait_seconds: metrics.histograms(
                "scheduler_dra_bindingconditions_wait_duration_seconds",
                "[ALPHA] Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.",
                WAIT_SECONDS,
            ),
        }
    }

    /// Counts a claim that was to be made for extended resources.
    pub fn created(&self, is_made: bool) {
        let status = if is_made { "success" } else { "failure" };
        self.creations.get_or_create(&vec![("status", status.to_owned())]).inc();
    }

    /// Counts a wait for the drivers of claims with binding conditions.
    pub fn waited(&self, profile: &str, claims: &[Arc<ResourceClaim>], status: &'static str, took: Duration) {
        for driver in claims.iter().flat_map(|claim| drivers(claim)).collect::<BTreeSet<_>>() {
            let labels: Labels =
                [("profile", profile), ("driver", driver), ("status", status)].map(|(k, v)| (k, v.to_owned())).into();
            self.allocations.get_or_create(&labels).inc();
            self.wait_seconds.get_or_create(&labels).observe(took.as_secs_f64());
        }
    }
}

/// Returns the drivers of the devices of a claim that have binding conditions.
fn drivers(claim: &ResourceClaim) -> impl Iterator<Item = &str> {
    let devices = claim.status.iter().flat_map(|status| status.allocation.iter()).flat_map(|it| it.devices.iter());
    let results = devices.flat_map(|devices| devices.results.iter().flatten());
    let bound = results.filter(|result| result.binding_conditions.as_ref().is_some_and(|all| !all.is_empty()));
    bound.map(|result| result.driver.as_str())
}
