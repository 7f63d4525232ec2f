//! The disruption controller computes how many pods of a PodDisruptionBudget may be evicted now.
//!
//! Corresponds to pkg/controller/disruption.

pub mod observe;
pub mod plan;
pub mod stale;
pub mod controller;
