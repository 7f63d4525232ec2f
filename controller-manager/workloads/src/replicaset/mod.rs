//! The ReplicaSet and ReplicationController controllers keep the wanted number of pods. They share their code.
//!
//! Corresponds to pkg/controller/replicaset and pkg/controller/replication.

pub mod replicated;
pub mod counts;
pub mod observe;
pub mod rank;
pub mod status;
pub mod plan;
pub mod controller;
