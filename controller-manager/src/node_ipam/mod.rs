//! The node IPAM controller: gives each node a range of addresses for its pods.
//!
//! Corresponds to pkg/controller/nodeipam.

pub mod cidr_set;
pub mod controller;
