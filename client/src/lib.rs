//! The client of the API: how every component but the server's own store sees the cluster.
//!
//! Read in order: a request goes out (`transport`, `api`), a collection is followed (`watch`, `reflector`,
//! `informer`, `lister`), keys are worked off (`work_queue`, `controller`), decisions are carried out (`plan`).
//! Corresponds to k8s.io/client-go.

// A request goes out.
mod connector;
mod transport;
pub mod token;
pub mod token_bucket;
mod client;
mod renewal;
pub mod request;
pub mod error;
pub mod service_account_tokens;

// The verbs on a collection.
pub mod options;
pub mod dynamic;
pub mod api;

// A collection is followed.
pub mod watch;
pub mod backoff;
pub mod reflector;
pub mod store;
pub mod cached;
pub mod lister;
pub mod informer;
pub mod informers;

// Keys are worked off, decisions carried out.
pub mod work_queue;
pub mod controller;
pub mod expectations;
pub mod consistency;
pub mod plan;
pub mod events;
pub mod leader;

// The whole of a component: its own port, whom that believes, and how it runs.
pub mod delegated_auth;
pub mod component;

#[cfg(test)]
mod client_tests;
#[cfg(test)]
mod informer_tests;
#[cfg(test)]
mod leader_tests;
#[cfg(test)]
mod tls_tests;
#[cfg(test)]
mod tls_attack_tests;
#[cfg(test)]
mod tls_crowd_tests;

pub use api::Api;
pub use backoff::Backoff;
pub use cached::{Cached, DynamicObject, PartialObject};
pub use client::{Client, ConnectError};
pub use component::Component;
pub use consistency::{ConsistencyStore, Stale};
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
pub use renewal::Renewal;
pub use service_account_tokens::ServiceAccountTokens;
pub use token::TokenSource;
pub use work_queue::WorkQueue;
