//! `MirroringMetrics`: the endpoints and slices that mirror Endpoints, and what each round changes.
//!
//! Corresponds to pkg/controller/endpointslicemirroring/metrics.

use super::desired::Mirrored;
use crate::endpointslice::metrics::{ENDPOINTS, Names, SliceMetrics};
use client::Plan;
use component_base::env::Env;
use component_base::metrics::{Histograms, Labels, exponential};
use proto::kinds::api::discovery::v1::EndpointSlice;
use std::sync::Arc;
use std::time::Duration;

const NAMES: Names = Names {
    added: "endpoint_slice_mirroring_controller_endpoints_added_per_sync",
    removed: "endpoint_slice_mirroring_controller_endpoints_removed_per_sync",
    endpoints: "endpoint_slice_mirroring_controller_endpoints_desired",
    slices: "endpoint_slice_mirroring_controller_num_endpoint_slices",
    desired_slices: "endpoint_slice_mirroring_controller_desired_endpoint_slices",
    changes: "endpoint_slice_mirroring_controller_changes",
    of: "Endpoints",
};
const SECONDS: &[f64] = &exponential::<15>(0.001, 2.0);

pub struct MirroringMetrics {
    slices: SliceMetrics,
    updated: Histograms,
    skipped: Histograms,
    durations: Histograms,
}

impl MirroringMetrics {
    pub fn new(env: &Env) -> Self {
        let metrics = env.metrics();
        let family = |name, help: &str| metrics.histograms(name, help, ENDPOINTS);
        Self {
            slices: SliceMetrics::new(env, &NAMES),
            updated: family(
                "endpoint_slice_mirroring_controller_endpoints_updated_per_sync",
                "Number of endpoints updated on each Endpoints sync",
            ),
            skipped: family(
                "endpoint_slice_mirroring_controller_addresses_skipped_per_sync",
                "Number of addresses skipped on each Endpoints sync due to being invalid or exceeding \
                 MaxEndpointsPerSubset",
            ),
            durations: metrics.histograms(
                "endpoint_slice_mirroring_controller_endpoints_sync_duration",
                "Duration of syncEndpoints() in seconds",
                SECONDS,
            ),
        }
    }

    /// Counts a round that has been carried out; `None` if nothing is to be mirrored.
    pub fn count_round(
        &self,
        key: &str,
        before: &[Arc<EndpointSlice>],
        mirrored: Option<&Mirrored>,
        max_per_subset: usize,
        plan: &Plan,
    ) {
        let Some(mirrored) = mirrored else { return self.slices.forget(key) };
        let changes = self.slices.count_round(key, before, &mirrored.desired, max_per_subset, plan);
        self.updated.get_or_create(&Labels::new()).observe(changes.updated as f64);
        self.skipped.get_or_create(&Labels::new()).observe(mirrored.skipped as f64);
    }

    pub fn count_duration(&self, duration: Duration) {
        self.durations.get_or_create(&Labels::new()).observe(duration.as_secs_f64());
    }
}
