//! The Deployment controller replaces the pods of one template by those of the next through replica sets.
//!
//! Corresponds to pkg/controller/deployment.

pub mod sizes;
pub mod history;
pub mod rolling;
pub mod recreate;
pub mod scale;
pub mod rollback;
pub mod status;
pub mod progress;
pub mod observe;
pub mod plan;
pub mod controller;
#[cfg(test)]
mod plan_tests;
