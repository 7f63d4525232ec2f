//! The controllers. Each watches the cluster, plans what is missing, and asks the API server for it.
//!
//! Read in this order: the table (`controllers`, `descriptor`), how the manager runs a controller (`manager`,
//! `context`, `reconcile`), and then `replicaset`, the simplest workload. Corresponds to kube-controller-manager and
//! pkg/controller.

// The table, and how the manager runs a controller.
pub mod controllers;
pub mod descriptor;
pub mod signers;
pub mod autoscaler_options;
pub mod attach_detach_options;
pub mod options;
pub mod flags;
pub mod manager;
pub mod context;
pub mod reconcile;
pub mod actions;
pub mod clock;

// Code that several controllers share.
pub mod controller_ref;
pub mod controller_revision;
pub mod indexes;
pub mod intstr;
pub mod pod;
pub mod pod_control;
pub mod pod_template;
pub mod template_hash;
pub mod service;
pub mod discovery;
pub mod selector_text;

// Workloads.
pub mod replicaset;
pub mod deployment;
pub mod statefulset;
pub mod daemonset;
pub mod job;
pub mod cronjob;
pub mod ttl_after_finished;
pub mod disruption;
pub mod horizontal_pod_autoscaler;

// Services.
pub mod endpoints;
pub mod endpointslice;
pub mod endpointslicemirroring;

// Nodes.
pub mod node_ipam;
pub mod node_lifecycle;
pub mod taint_eviction;
pub mod pod_gc;

// Volumes.
pub mod volume;
pub mod attach_detach;
pub mod csi_attacher;

// Housekeeping.
pub mod namespace;
pub mod serviceaccount;
pub mod serviceaccount_token;
pub mod root_ca_publisher;
pub mod clusterrole_aggregation;
pub mod garbage_collector;
pub mod resource_quota;
pub mod validatingadmissionpolicy_status;
pub mod certificates;
pub mod bootstrap;

// The cloud controller manager.
pub mod cloud;

#[cfg(test)]
mod fixture;

pub use manager::{Error, run, run_with};
pub use options::{Config, Settings};
