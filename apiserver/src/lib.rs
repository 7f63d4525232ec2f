//! The API server: from socket to store and back to the watchers.
//!
//! Corresponds to kube-apiserver and k8s.io/apiserver. The modules stand in the order in which a request
//! passes them.

// How it starts.
pub mod config;
pub mod flags;
pub mod runtime_config;
mod files;
mod start;
pub mod serving_certificate;
pub mod bootstrap;
mod upkeep;
pub mod server;

// A request comes in, and is told who asks and whether he may.
pub mod pipeline;
pub mod cors;
pub mod media;
pub mod answer;
mod answer_memory;
pub mod audit;
pub mod record;

// Its verb; a write passes the one door to the store.
pub mod endpoints;

// What others answer instead: the agents of nodes, and aggregated servers.
pub mod node_agents;

// The store, and back to the watchers.
pub mod snapshot;

// What the server tells about itself.
pub mod discovery;
pub mod health;
pub mod metrics;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use config::Config;
pub use start::{ApiServer, Error, restore, run, service_on};
