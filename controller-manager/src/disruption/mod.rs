//! The disruption controller: says how many pods of a budget may be evicted at the moment.
//!
//! Corresponds to pkg/controller/disruption.

pub mod controller;
pub mod observe;
pub mod plan;
pub mod stale;
