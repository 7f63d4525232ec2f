//! The API server: from socket to store and back to the watchers.
//!
//! Corresponds to kube-apiserver and k8s.io/apiserver. The modules stand in the order in which a request
//! passes them.

// How it starts.
pub mod config;
pub mod flags;
pub mod runtime_config;
pub mod configuration_file;
mod files;
mod start;
pub mod serving_certificate;
pub mod bootstrap;
mod upkeep;
pub mod server;

// A request comes in, and is told who asks and whether he may.
pub mod pipeline;
pub mod cors;
pub mod request;
pub mod media;
pub mod answer;
mod answer_memory;
pub mod authn;
pub mod audit;
pub mod request_trace;
pub mod flow_control;
pub mod authz;

// Its verb; a write passes the one door to the store.
pub mod endpoints;
pub mod patch;
pub mod apply;
pub mod admission;
pub mod registry;
pub mod crd;

// What others answer instead: the agents of nodes, and aggregated servers.
pub mod node_agents;
pub mod remote;
pub mod aggregation;

// The store, and back to the watchers.
pub mod encryption;
pub mod storage;
pub mod snapshot;
pub mod cacher;

// What the server tells about itself.
pub mod discovery;
pub mod openapi;
pub mod health;
pub mod metrics;

#[cfg(test)]
mod testing;

pub use config::Config;
pub use start::{ApiServer, Error, restore, run, service_on};
