//! What every component shares: the environment it runs in, TLS and identities, kubeconfig, and the
//! port on which it shows its health and metrics.
//!
//! Corresponds to k8s.io/component-base and k8s.io/client-go/tools/clientcmd.

pub mod env;
pub mod fixtures;
pub mod health_checks;
pub mod health_server;
pub mod http;
pub mod kubeconfig;
pub mod lifecycle;
pub mod logging;
pub mod metrics;
pub mod network;
pub mod options;
pub mod pki;
pub mod private_file;
pub mod rng;
pub mod serving;
pub mod tls;
