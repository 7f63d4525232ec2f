//! The ResourceQuota controller writes the status of every quota: its limits and their usage.
//!
//! The API server raises the usage before it creates an object, so the usage covers existing objects and pending
//! creations. The controller therefore never simply writes the usage that it counts. It subtracts the usage of deleted
//! objects and raises a usage that is too low. It lowers a usage that is too high only after a time in which every
//! pending creation has ended. So concurrent writers never exceed a quota. Corresponds to pkg/controller/resourcequota.
//!
//! Deviation: a usage that is too high because a creation failed after it was charged is corrected after a minute
//! without changes; Kubernetes recalculates every five minutes and after every deletion, and may then miss pending
//! creations.

pub mod ledger;
pub mod count;
pub mod monitors;
pub mod plan;
pub mod controller;
