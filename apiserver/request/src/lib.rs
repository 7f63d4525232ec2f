//! A request: its verb and resource, its user, its options and body, and the trace of what happened to it.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/request and to parts of pkg/endpoints/handlers.
//!
//! Reading order: [`query`] and [`info`] (verb, resource and name, from the URL); [`user_info`] (the user); [`options`]
//! and [`body`]; [`header_text`], [`ids`] and [`deadline`] (headers and time limits); [`run_to_completion`] (writes
//! outlive their connection); [`trace`] (the record that a request can ask for).

pub mod query;
pub mod info;
pub mod user_info;
pub mod options;
pub mod body;
pub mod header_text;
pub mod ids;
pub mod deadline;
pub mod run_to_completion;
pub mod trace;

pub use user_info::UserInfo;
