//! The node lifecycle controller: notices nodes that fall silent, says so in their status, and taints them.
//!
//! Corresponds to pkg/controller/nodelifecycle.

pub mod controller;
pub mod plan;
pub mod health;
pub mod zones;
pub mod taints;
pub mod labels;
