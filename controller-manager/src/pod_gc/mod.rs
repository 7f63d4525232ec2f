//! The pod garbage collector deletes pods of nodes that no longer exist, and terminated pods beyond a threshold.
//!
//! Corresponds to pkg/controller/podgc.

pub mod plan;
pub mod controller;
