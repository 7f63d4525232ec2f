//! The route controller: the cloud sends packets for the pods of a node to its machine.
//!
//! `plan` is pure. Corresponds to k8s.io/cloud-provider/controllers/route.

pub mod plan;
pub mod controller;
