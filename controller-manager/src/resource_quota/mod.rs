//! The ResourceQuota controller: it keeps the status of every quota, what is allowed and what is used of it.
//!
//! The API server raises a usage before it creates anything, so a usage covers what is there and what is on its way. The
//! controller therefore never just writes down what it counts: it takes off what it has seen go, raises what is too low,
//! and lowers what is too high only after a time in which no creation can have been on its way. So a quota is never given
//! out twice, however its writers race. Corresponds to pkg/controller/resourcequota.
//!
//! Deviation: a usage that is too high because a creation failed after it had been counted is set right after a minute
//! of quiet; Kubernetes counts anew every five minutes and after every deletion, and may then give out twice what is on
//! its way.

pub mod controller;
pub mod count;
pub mod ledger;
pub mod monitors;
pub mod plan;
