//! The taint eviction controller deletes pods from nodes whose NoExecute taints they do not tolerate, or no longer.
//!
//! Corresponds to pkg/controller/tainteviction.

pub mod plan;
pub mod controller;
