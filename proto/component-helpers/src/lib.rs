//! The rules about pods, nodes, volumes, devices and shared GPUs that several components share. Pure.
//!
//! Corresponds to k8s.io/component-helpers.

pub mod device_claims;
pub mod gpu_sharing;
pub mod scheduling;
pub mod volumes;
