//! The rules about pods, nodes, volumes and devices that several components share. Pure.
//!
//! Corresponds to k8s.io/component-helpers.

pub mod device_claims;
pub mod scheduling;
pub mod volumes;
