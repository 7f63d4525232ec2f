//! The Job controller: pods that run to their end, as often as is wanted.
//!
//! Corresponds to pkg/controller/job.

pub mod controller;
pub mod observe;
pub mod plan;
pub mod tally;
pub mod indexes;
pub mod policy;
pub mod finish;
pub mod verdict;
pub mod pods;
pub mod backoff;

#[cfg(test)]
mod plan_tests;
