//! Bootstrap tokens: secrets by which a new node is invited, each until its time has passed.
//!
//! Corresponds to pkg/controller/bootstrap and k8s.io/cluster-bootstrap.

pub mod signer;
pub mod token;
pub mod token_cleaner;
