//! Access: who calls, and what the caller may do.
//!
//! Corresponds to k8s.io/apiserver/pkg/{authentication,authorization} and pkg/kubeapiserver.

pub mod configuration_file;
pub mod authn;
pub mod authz;
pub mod metrics;
