//! The network of the cluster as containers use it: the names of Services and pods, and the endpoint that a connection
//! to a Service reaches. Nothing is really connected.
//!
//! Corresponds to CoreDNS and kube-proxy. `dns`, `routes` and `variables` are pure; `services` keeps what they read.

pub mod services;
pub mod dns;
pub mod routes;
pub mod variables;
