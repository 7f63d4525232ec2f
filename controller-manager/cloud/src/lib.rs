//! The controllers that depend on a cloud: nodes are machines, Services get load balancers, and pods get routes.
//!
//! Read `steps` (a plan whose steps go to two servers), then `service_lb/plan`. The table of these controllers is in the crate
//! `controller-manager`. Corresponds to k8s.io/cloud-provider/controllers.

// What the controllers share.
pub mod steps;
pub mod cloud_nodes;

// The controllers.
pub mod node;
pub mod node_lifecycle;
pub mod service_lb;
pub mod node_route;
pub mod machines;

#[cfg(test)]
mod fixture;
