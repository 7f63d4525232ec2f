//! The EndpointSlice controller writes the endpoints of each Service with a selector into EndpointSlices.
//!
//! Corresponds to pkg/controller/endpointslice and k8s.io/endpointslice.

pub mod desired;
pub mod packing;
pub mod topology;
pub mod tracker;
pub mod plan;
pub mod metrics;
pub mod controller;
