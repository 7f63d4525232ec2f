//! What callers may do: authorizers run in turn until one has an opinion.
//!
//! Corresponds to k8s.io/apiserver/pkg/authorization and pkg/kubeapiserver/authorizer.

pub mod attributes;
pub mod rules;
pub mod rbac;
pub mod node;

pub use attributes::{Attributes, Decision};
