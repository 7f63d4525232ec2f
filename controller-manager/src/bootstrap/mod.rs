//! The controllers of bootstrap tokens: secrets with which a new node joins, until they expire.
//!
//! Corresponds to pkg/controller/bootstrap and k8s.io/cluster-bootstrap.

pub mod token;
pub mod signer;
pub mod token_cleaner;
