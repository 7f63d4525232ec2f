//! The StatefulSet controller keeps pods with an identity: each has an ordinal, a name, a host name and its own claims.
//!
//! Corresponds to pkg/controller/statefulset. Read `plan` first: it lists the steps of a round in their order.

pub mod spec;
pub mod identity;
pub mod claims;
pub mod ownership;
pub mod pods;
pub mod history;
pub mod observe;
pub mod replicas;
pub mod rolling;
pub mod status;
pub mod events;
pub mod plan;
pub mod controller;

#[cfg(test)]
mod sample;
#[cfg(test)]
mod plan_tests;
