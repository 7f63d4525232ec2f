//! The node lifecycle controller marks nodes without heartbeats as `Unknown`, and taints nodes that are not ready.
//!
//! Corresponds to pkg/controller/nodelifecycle.

pub mod health;
pub mod zones;
pub mod taints;
pub mod labels;
pub mod plan;
pub mod metrics;
pub mod controller;
