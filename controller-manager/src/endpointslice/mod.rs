//! The EndpointSlice controller: the addresses behind each Service, in slices of at most a hundred.
//!
//! Corresponds to pkg/controller/endpointslice and k8s.io/endpointslice.

pub mod controller;
pub mod desired;
pub mod plan;
pub mod packing;
pub mod tracker;
