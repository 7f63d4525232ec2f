//! The EndpointSlice mirroring controller: Endpoints that somebody wrote by hand for a Service without a selector show as
//! slices too, which is where service proxies look.
//!
//! Corresponds to pkg/controller/endpointslicemirroring.

pub mod controller;
pub mod desired;
pub mod plan;
