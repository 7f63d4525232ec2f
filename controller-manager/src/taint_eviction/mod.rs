//! The taint eviction controller: pods leave nodes whose NoExecute taints they do not tolerate, or no longer.
//!
//! Corresponds to pkg/controller/tainteviction.

pub mod controller;
pub mod plan;
