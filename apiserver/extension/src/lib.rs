//! Extensions of the API while the server runs: custom resources, and API groups that another server serves.
//!
//! Reading order: [`crd`] turns CustomResourceDefinitions into rows of the registry. [`aggregation`] proxies the groups
//! of APIServices, and keeps APIServices for custom resources too.
//! Corresponds to k8s.io/apiextensions-apiserver and k8s.io/kube-aggregator.

pub mod crd;
pub mod aggregation;
