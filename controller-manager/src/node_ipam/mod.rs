//! The node IPAM controller allocates to each node a CIDR for its pods' addresses.
//!
//! Corresponds to pkg/controller/nodeipam.

pub mod cidr_set;
pub mod metrics;
pub mod controller;
