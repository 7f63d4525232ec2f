//! The API server: from socket to store and back to the watchers.
//!
//! Corresponds to kube-apiserver and k8s.io/apiserver. The modules stand in the order in which a request
//! passes them.

pub mod request;
pub mod media;
pub mod answer;
pub mod authn;
pub mod authz;
pub mod admission;
pub mod apply;
pub mod registry;
pub mod storage;
pub mod cacher;
pub mod bootstrap;
pub mod discovery;
pub mod openapi;
