//! The Endpoints controller writes the Endpoints of each Service with a selector: the older form of EndpointSlices.
//!
//! Corresponds to pkg/controller/endpoint.

pub mod subsets;
pub mod plan;
pub mod tracker;
pub mod controller;
