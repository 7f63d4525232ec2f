//! Extensions of the API: custom resources, and groups that another server serves.
//!
//! Corresponds to k8s.io/apiextensions-apiserver and k8s.io/kube-aggregator.

pub mod crd;
pub mod aggregation;
