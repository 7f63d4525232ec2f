//! The device taint eviction controller deletes pods that use devices with NoExecute taints which their claims do not tolerate, or
//! no longer.
//!
//! Corresponds to pkg/controller/devicetainteviction.

pub mod eviction;
pub mod caches;
pub mod rule_status;
pub mod controller;
