//! What an object of each kind may say, beyond what its schema can: cross-field rules, immutability, references.
//!
//! Corresponds to pkg/apis/*/validation. Functions take places (`At`) and add every error they find.

pub mod at;
pub mod configuration;
pub mod cron_schedule;
pub mod int_or_percent;
pub mod jobs;
pub mod object_meta;
pub mod pod;
pub mod selector;
pub mod storage;
pub mod workloads;
