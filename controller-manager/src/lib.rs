//! The controller manager, and those of its controllers that are about nodes, services and housekeeping.
//!
//! Each controller watches the cluster, plans what is missing, and asks the API server for it. Read in this order: the table
//! (`controllers`), how the manager runs a controller (`manager`, and `descriptor` of the crate `controller-base`), and then
//! `replicaset` of the crate `workloads`. Corresponds to kube-controller-manager and pkg/controller.

// The table, and the manager.
pub mod controllers;
pub mod selection;
pub mod manager;
mod configz;

// Services.
pub mod service;
pub mod endpoints;
pub mod endpointslice;
pub mod endpointslicemirroring;
pub mod service_cidr;

// Nodes.
pub mod node_ipam;
pub mod node_lifecycle;
pub mod taint_eviction;
pub mod pod_gc;
pub mod pod_group_protection;
pub mod ttl;

// Housekeeping.
pub mod namespace;
pub mod serviceaccount;
pub mod serviceaccount_token;
pub mod legacy_token_cleaner;
pub mod root_ca_publisher;
pub mod clusterrole_aggregation;
pub mod garbage_collector;
pub mod resource_quota;
pub mod validatingadmissionpolicy_status;
pub mod certificates;
pub mod bootstrap;
pub mod storage_version_gc;
pub mod storage_version_migrator;

// The cloud controller manager.
pub mod cloud;

pub use controller_base::options::{Config, Settings};
pub use manager::{Error, run, run_with};
