//! The API server: receives requests, reads and writes objects in the store, and sends watch events.
//!
//! Corresponds to kube-apiserver and k8s.io/apiserver. The modules stand in the order in which a request passes them.

// Start: flags, files, the objects that every cluster has.
pub mod request_log;
pub mod config;
pub mod flags;
pub mod runtime_config;
mod files;
mod start;
pub mod serving_certificate;
pub mod bootstrap;
mod upkeep;
pub mod server;

// A request arrives: it is recorded, authenticated and authorized.
pub mod pipeline;
pub mod cors;
pub mod media;
pub mod answer;
mod answer_memory;
pub mod audit;
pub mod record;

// The verbs. Writes go through `registry`, the only path to the store.
pub mod endpoints;

// Requests that are forwarded to the agents of nodes.
pub mod node_agents;

// Saving and restoring the whole store.
pub mod snapshot;

// Information about the server itself.
pub mod discovery;
mod served_documents;
pub mod health;
pub mod metrics;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use config::Config;
pub use start::{ApiServer, Error, restore, run, service_on};
