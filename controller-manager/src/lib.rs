//! The controllers: each watches the cluster, decides what is missing, and asks the API server for it.
//!
//! Read in this order: the table (`controllers`), how one is run (`manager`, `context`, `reconcile`), and then
//! `replicaset`, the simplest that does something. Corresponds to kube-controller-manager and pkg/controller.

pub mod actions;
pub mod clock;
pub mod clusterrole_aggregation;
pub mod context;
pub mod controller_ref;
pub mod controllers;
pub mod cronjob;
pub mod deployment;
pub mod discovery;
pub mod disruption;
pub mod endpoints;
pub mod endpointslice;
#[cfg(test)]
mod fixture;
pub mod garbage_collector;
pub mod indexes;
pub mod intstr;
pub mod job;
pub mod manager;
pub mod namespace;
pub mod node_ipam;
pub mod node_lifecycle;
pub mod options;
pub mod pod;
pub mod pod_control;
pub mod pod_gc;
pub mod pod_template;
pub mod reconcile;
pub mod replicaset;
pub mod root_ca_publisher;
pub mod service;
pub mod serviceaccount;
pub mod taint_eviction;
pub mod template_hash;
pub mod ttl_after_finished;

pub use manager::{Error, run, run_with};
pub use options::{Config, Settings};
