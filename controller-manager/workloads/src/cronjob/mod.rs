//! The CronJob controller creates jobs on a schedule.
//!
//! Corresponds to pkg/controller/cronjob.

pub mod schedule;
pub mod missed;
pub mod plan;
pub mod controller;
