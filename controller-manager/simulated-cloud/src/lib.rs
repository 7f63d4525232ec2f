//! The simulated cloud: machines, node groups, load balancers and routes behind a JSON API of its own.
//!
//! The cloud knows nothing of Kubernetes. Read `model` (what it holds), then `cloud` (what may be done with it; pure), then
//! `routes`, which serves it, and `cloud_client`, which calls it. Corresponds to the API of a cloud provider, and
//! `cloud_client` to the provider's half of k8s.io/cloud-provider/cloud.go.

// What there is, and what may be done with it. No IO.
pub mod model;
pub mod problem;
pub mod addresses;
pub mod cloud;

// The server.
pub mod state_file;
pub mod running;
pub mod routes;
pub mod allowed_clients;
pub mod config;
pub mod run;

// The other end.
pub mod cloud_client;

pub use config::Config;
pub use run::{Error, run};
