//! The usage of a ResourceQuota by objects, and the choice of quotas that apply to an object.
//!
//! Corresponds to k8s.io/kubernetes/pkg/quota/v1. The API server computes the usage of an object before it creates it,
//! and the quota controller that of all existing objects.

pub mod pod_resources;
pub mod scope;
pub mod usage;

pub use pod_resources::{Amounts, add, amounts};
pub use usage::{matches_resource, unmet_constraints, usage};

/// The resources that no quota counts: events, and resources that are never stored.
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
