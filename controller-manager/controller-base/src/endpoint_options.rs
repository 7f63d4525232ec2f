//! `EndpointOptions`: the flags of the controllers of Endpoints and EndpointSlices.
//!
//! Corresponds to endpointcontroller.go, endpointslicecontroller.go and endpointslicemirroringcontroller.go in
//! cmd/kube-controller-manager/app/options.

use clap::Args;
use component_base::duration::parse_duration;
use std::time::Duration;

#[derive(Args, Clone, Debug)]
pub struct EndpointOptions {
    /// Services whose Endpoints are reconciled concurrently
    #[arg(long, default_value_t = 5)]
    pub concurrent_endpoint_syncs: usize,
    /// Services whose EndpointSlices are reconciled concurrently
    #[arg(long, default_value_t = 5)]
    pub concurrent_service_endpoint_syncs: usize,
    /// How long changes of pods are collected before Endpoints are written
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    pub endpoint_updates_batch_period: Duration,
    /// How long changes of pods are collected before EndpointSlices are written
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    pub endpointslice_updates_batch_period: Duration,
    /// Endpoints that one slice may hold
    #[arg(long, default_value_t = 100)]
    pub max_endpoints_per_slice: usize,
    /// Services whose Endpoints are mirrored concurrently
    #[arg(long, default_value_t = 5)]
    pub mirroring_concurrent_service_endpoint_syncs: usize,
    /// How long changes of Endpoints are collected before they are mirrored
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    pub mirroring_endpointslice_updates_batch_period: Duration,
    /// Addresses of one Endpoints subset that are mirrored to slices
    #[arg(long, default_value_t = 1000)]
    pub mirroring_max_endpoints_per_subset: usize,
}
