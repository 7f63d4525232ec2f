//! The DaemonSet controller keeps one pod on every node that the pod fits, and replaces pods when their template changes.
//!
//! Corresponds to pkg/controller/daemon.

pub mod daemon_pod;
pub mod placement;
pub mod observe;
pub mod history;
pub mod node_pods;
pub mod changes;
pub mod manage;
pub mod rolling;
pub mod status;
pub mod backoff;
pub mod plan;
pub mod controller;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod plan_tests;
