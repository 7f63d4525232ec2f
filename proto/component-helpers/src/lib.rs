//! The rules about pods, nodes and volumes that several components share. Pure.
//!
//! Corresponds to k8s.io/component-helpers.

pub mod scheduling;
pub mod volumes;
