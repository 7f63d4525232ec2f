//! The client of the API: how every component but the server's own store sees the cluster.
//!
//! Read in order: a request goes out (`transport`, `api`), a collection is followed (`watch`, `reflector`,
//! `informer`, `lister`), keys are worked off (`work_queue`, `controller`), decisions are carried out (`plan`).
//! Corresponds to k8s.io/client-go.

pub mod api;
pub mod backoff;
pub mod cached;
mod client;
mod connector;
pub mod controller;
pub mod delegated_auth;
pub mod dynamic;
pub mod error;
pub mod events;
pub mod expectations;
pub mod informer;
pub mod informers;
pub mod leader;
pub mod lister;
pub mod options;
pub mod plan;
pub mod reflector;
pub mod request;
pub mod store;
pub mod token;
pub mod token_bucket;
mod transport;
pub mod watch;
pub mod work_queue;

#[cfg(test)]
mod client_tests;
#[cfg(test)]
mod fake_server;
#[cfg(test)]
mod informer_tests;
#[cfg(test)]
mod leader_tests;
#[cfg(test)]
mod tls_tests;

pub use api::Api;
pub use backoff::Backoff;
pub use cached::{Cached, DynamicObject, PartialObject};
pub use client::{Client, ConnectError};
pub use controller::{ReconcileError, run_workers};
pub use dynamic::DynamicApi;
pub use error::Error;
pub use events::{EventSpec, EventType, Recorder, Regarding};
pub use expectations::{Expectations, UidExpectations};
pub use informer::{Event, Informer};
pub use informers::Informers;
pub use leader::LeaderElection;
pub use lister::Lister;
pub use options::{DeleteOptions, List, ListOptions, Patch, PatchOptions, Preconditions, Propagation};
pub use plan::{Action, ApplyError, Plan, apply};
pub use token::{ServiceAccountTokens, TokenSource};
pub use work_queue::WorkQueue;
