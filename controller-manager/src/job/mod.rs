//! The Job controller: pods that run to their end, as often as is wanted.
//!
//! Corresponds to pkg/controller/job.

pub mod backoff;
pub mod controller;
pub mod finish;
pub mod indexes;
pub mod observe;
pub mod plan;
#[cfg(test)]
mod plan_tests;
pub mod pods;
pub mod policy;
pub mod tally;
