//! The ReplicaSet controller, and with the same code the ReplicationController's: as many pods as are wanted.
//!
//! Corresponds to pkg/controller/replicaset and pkg/controller/replication.

pub mod controller;
pub mod observe;
pub mod plan;
pub mod rank;
pub mod replicated;
pub mod status;
