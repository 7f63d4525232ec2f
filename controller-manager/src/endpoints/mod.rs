//! The Endpoints controller: the older list of addresses behind each Service.
//!
//! Corresponds to pkg/controller/endpoint.

pub mod controller;
pub mod plan;
pub mod subsets;
pub mod tracker;
