//! What objects take of a ResourceQuota, and which quotas are for them.
//!
//! Corresponds to k8s.io/kubernetes/pkg/quota/v1. The API server asks before it creates, the quota controller counts
//! what is there; both by these functions.

pub mod pod_resources;
pub mod scope;
pub mod usage;

pub use pod_resources::{Amounts, add, amounts};
pub use usage::{concerns, unsaid, usage};

/// Nobody counts what comes and goes by itself, nor what is answered and never stored.
pub const IGNORED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("events.k8s.io", "events"),
];
