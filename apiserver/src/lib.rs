//! The API server: from socket to store and back to the watchers.
//!
//! Corresponds to kube-apiserver and k8s.io/apiserver. The modules stand in the order in which a request
//! passes them.

pub mod config;
pub mod server;
pub mod pipeline;
pub mod request;
pub mod media;
pub mod answer;
pub mod authn;
pub mod audit;
pub mod flow_control;
pub mod authz;
pub mod endpoints;
pub mod discovery;
pub mod openapi;
pub mod health;
pub mod version;
pub mod metrics;
pub mod patch;
pub mod apply;
pub mod admission;
pub mod registry;
pub mod storage;
pub mod cacher;
pub mod bootstrap;
mod start;

pub use config::Config;
pub use start::{ApiServer, Error, run, service};
