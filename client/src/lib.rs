//! The client of the Kubernetes API, which every component uses.
//!
//! Read in order: requests (`transport`, `api`), caches of collections (`watch`, `reflector`, `informer`, `lister`), work
//! queues (`work_queue`, `controller`), and decisions (`plan`, `reconcile`). Corresponds to k8s.io/client-go.

// Requests.
mod connector;
mod http2_body;
mod shared_connection;
mod transport;
pub mod token;
pub mod token_bucket;
mod request_metrics;
mod client;
mod renewal;
pub mod link;
pub mod request;
pub mod error;
pub mod service_account_tokens;

// The verbs on a collection.
pub mod options;
pub mod dynamic;
pub mod api;

// Caches of collections.
pub mod watch;
pub mod backoff;
pub mod reflector;
pub mod store;
mod staging;
pub mod cached;
pub mod label_sets;
pub mod custom;
mod managed_fields;
mod packed;
pub mod lister;
pub mod informer;
pub mod informers;

// Work queues, and carrying out decisions.
pub mod work_queue;
pub mod controller;
pub mod expectations;
pub mod consistency;
pub mod plan;
pub mod events;
pub mod reconcile;
pub mod leader;

// Running a component: its port, access checks and leader election.
pub mod front_proxy;
pub mod delegated_auth;
pub mod component;

#[cfg(test)]
mod client_tests;
#[cfg(test)]
mod informer_tests;
#[cfg(test)]
mod packed_list_tests;
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
pub use cached::{AnyCached, Cached, DynamicObject, PartialObject};
pub use client::{Client, ConnectError};
pub use component::Component;
pub use consistency::{ConsistencyStore, Stale};
pub use controller::{ReconcileError, run_workers};
pub use custom::{CustomResource, CustomSpec};
pub use dynamic::DynamicApi;
pub use error::Error;
pub use events::{EventSpec, EventType, Recorder, Regarding};
pub use expectations::{Expectations, UidExpectations};
pub use informer::{AnyInformer, Event, Informer};
pub use informers::Informers;
pub use leader::LeaderElection;
pub use lister::Lister;
pub use options::{DeleteOptions, List, ListOptions, Patch, PatchOptions, Preconditions, Propagation};
pub use plan::{Action, ApplyError, Plan, apply, apply_one, apply_unread};
pub use reconcile::{Actor, PeriodicReconciler, Reconciler};
pub use renewal::Renewal;
pub use service_account_tokens::ServiceAccountTokens;
pub use token::TokenSource;
pub use work_queue::WorkQueue;
