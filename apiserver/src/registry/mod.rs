//! The one door to the store: every read and write of every row.
//!
//! Corresponds to k8s.io/apiserver/pkg/registry/generic/registry and pkg/registry.

pub mod strategy;
