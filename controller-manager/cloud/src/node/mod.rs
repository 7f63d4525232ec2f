//! The cloud node controller: what a Node says of its machine.
//!
//! `addresses` and `plan` are pure. Corresponds to k8s.io/cloud-provider/controllers/node.

pub mod addresses;
pub mod plan;
pub mod controller;
