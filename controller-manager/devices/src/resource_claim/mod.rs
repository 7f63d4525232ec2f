//! The resource claim controller makes the claims of pods from templates, reserves claims for pods that were not scheduled by
//! a scheduler, and releases what no pod uses any more.
//!
//! Corresponds to pkg/controller/resourceclaim.

pub mod pod_plan;
pub mod claim_plan;
pub mod observe;
pub mod metrics;
pub mod controller;
