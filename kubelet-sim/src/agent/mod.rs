//! The HTTP server of a node's agent: logs, exec, attach, port forwarding, the node's pods and what
//! they use.
//!
//! Corresponds to pkg/kubelet/server. One process serves many nodes; the Host header names the node of a request.

// The node, pod or container that a request names, and who may ask.
pub mod plain_text;
pub mod container;
pub mod target;
pub mod access;

// A connection after its upgrade.
pub mod stream;

// The endpoints, and the table of their paths.
pub mod logs;
pub mod metrics;
mod cadvisor;
pub mod exec;
pub mod port_forward;
pub mod routes;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod network_tests;
