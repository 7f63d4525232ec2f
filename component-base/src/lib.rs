//! Shared parts of all components: the environment, TLS and identities, kubeconfig, flags, and the port for health and
//! metrics.
//!
//! Corresponds to k8s.io/component-base and k8s.io/client-go/tools/clientcmd.

// The environment and the process.
pub mod env;
pub mod rng;
pub mod network;
pub mod metrics;
pub mod process_metrics;
pub mod logging;
pub mod memory;
pub mod panics;
pub mod descriptors;
pub mod lifecycle;
pub mod command;

// Flags, identities and connections.
pub mod duration;
pub mod go_bool;
pub mod version;
pub mod options;
pub mod kubeconfig;
pub mod private_key;
pub mod json_web_token;
pub mod pki;
pub mod certificate_request;
pub mod private_file;
pub mod file_watch;
pub mod claim;
mod self_signed;
pub mod tls;
pub mod tls_policy;
mod named_certificates;
pub mod dial;

// The status of StorageVersions, which API servers and a controller write.
pub mod storage_version;

// Serving.
pub mod http;
pub mod accept;
pub mod serving;
pub mod health_metrics;
pub mod health_checks;
pub mod zpages;
pub mod health_server;

// The fixed keys of `component-base-testing`, over this crate's own types: for its own tests alone.
#[cfg(test)]
extern crate self as component_base;
#[cfg(test)]
#[allow(dead_code, reason = "the tests of this crate need some of the keys")]
#[path = "../testing/src/fixtures.rs"]
mod fixtures;
