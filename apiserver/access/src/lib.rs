//! Authentication and authorization: the user that sends a request, and what this user is allowed to do.
//!
//! Reading order: [`authn`] turns a request's credentials into a user, [`authz`] decides whether that user may do what
//! the request asks for. [`configuration_file`] reads and reloads the configuration files of both, and [`metrics`] counts
//! their attempts.
//!
//! Corresponds to k8s.io/apiserver/pkg/{authentication,authorization} and pkg/kubeapiserver.

pub mod authn;
pub mod authz;
pub mod configuration_file;
pub mod metrics;
