//! The controllers of certificate signing requests: one approves those of nodes, one signs approved requests, one
//! deletes old requests.
//!
//! Corresponds to pkg/controller/certificates.

pub mod conditions;
pub mod approving;
pub mod signing;
pub mod cleaner;
pub mod pod_request_cleaner;
pub mod trust_bundle_publisher;
