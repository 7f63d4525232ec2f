//! What objects take of a ResourceQuota, and which quotas are for them.
//!
//! Corresponds to k8s.io/kubernetes/pkg/quota/v1. The API server asks before it creates, the quota controller counts
//! what is there; both by these functions.

pub mod pod_resources;
pub mod scope;
pub mod usage;

pub use pod_resources::{Amounts, add, amounts};
pub use usage::{concerns, unsaid, usage};

/// Events come and go by themselves; nobody counts them.
pub const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];
