//! The controllers of devices: they make the ResourceClaims of pods, release them, and evict pods from tainted devices.
//!
//! Read `resource_claim` first. Corresponds to pkg/controller/resourceclaim and pkg/controller/devicetainteviction.

pub mod pod_claims;
pub mod resource_claim;
pub mod device_taint_eviction;

#[cfg(test)]
mod fixture;
