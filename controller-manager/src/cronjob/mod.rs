//! The CronJob controller: jobs by the clock.
//!
//! Corresponds to pkg/controller/cronjob.

pub mod controller;
pub mod missed;
pub mod plan;
pub mod schedule;
