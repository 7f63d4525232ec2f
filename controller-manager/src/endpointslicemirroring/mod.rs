//! The EndpointSlice mirroring controller copies manually written Endpoints of Services without a selector to
//! EndpointSlices, because service proxies read those.
//!
//! Corresponds to pkg/controller/endpointslicemirroring.

pub mod desired;
pub mod plan;
pub mod metrics;
pub mod controller;
