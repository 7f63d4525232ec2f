//! The API server: from socket to store and back to the watchers.
//!
//! Corresponds to kube-apiserver and k8s.io/apiserver. The modules stand in the order in which a request
//! passes them.

pub mod admission;
pub mod answer;
pub mod apply;
pub mod audit;
pub mod authn;
pub mod authz;
pub mod bootstrap;
pub mod cacher;
pub mod config;
pub mod discovery;
pub mod endpoints;
pub mod flow_control;
pub mod health;
pub mod media;
pub mod metrics;
pub mod openapi;
pub mod patch;
pub mod pipeline;
pub mod registry;
pub mod request;
pub mod server;
mod start;
pub mod storage;
pub mod version;

pub use config::Config;
pub use start::{ApiServer, Error, run, service};
