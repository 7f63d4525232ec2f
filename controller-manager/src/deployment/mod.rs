//! The Deployment controller: rolls pods from one template to the next through replica sets.
//!
//! Corresponds to pkg/controller/deployment.

pub mod controller;
pub mod history;
pub mod observe;
pub mod plan;
#[cfg(test)]
mod plan_tests;
pub mod progress;
pub mod recreate;
pub mod rollback;
pub mod rolling;
pub mod scale;
pub mod sizes;
pub mod status;
