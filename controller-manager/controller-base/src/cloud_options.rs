//! `CloudOptions`, the flags of the controllers that depend on a cloud, and `CloudAccess`, which adds the connection to it.
//!
//! Corresponds to KubeCloudSharedOptions, ServiceControllerOptions and NodeControllerOptions of k8s.io/cloud-provider/options.

use clap::Args;
use client::Client;
use component_base::duration::parse_duration;
use std::time::Duration;

#[derive(Args, Clone, Debug)]
pub struct CloudOptions {
    /// Services whose load balancers are reconciled concurrently
    #[arg(long, default_value_t = 1)]
    pub concurrent_service_syncs: usize,
    /// Nodes that are initialized concurrently
    #[arg(long, default_value_t = 1)]
    pub concurrent_node_syncs: usize,
    /// Keep the cloud's routes to the pods of each node, if --allocate-node-cidrs is given too
    #[arg(long, default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub configure_cloud_routes: bool,
    /// How often the cloud's routes are compared with the nodes
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pub route_reconciliation_period: Duration,
    /// How often the addresses of every node are compared with its machine's
    #[arg(long, default_value = "5m0s", value_parser = parse_duration)]
    pub node_status_update_frequency: Duration,
}

/// A cloud, and how its controllers use it.
#[derive(Clone, Debug)]
pub struct CloudAccess {
    /// Connected to the cloud, not to an API server.
    pub client: Client,
    pub options: CloudOptions,
}
