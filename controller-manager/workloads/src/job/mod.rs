//! The Job controller runs pods until the wanted number of them has succeeded.
//!
//! Corresponds to pkg/controller/job.

pub mod observe;
pub mod indexes;
pub mod policy;
pub mod end;
pub mod tally;
pub mod finish;
pub mod backoff;
pub mod pods;
pub mod plan;
pub mod metrics;
pub mod controller;

#[cfg(test)]
mod plan_tests;
