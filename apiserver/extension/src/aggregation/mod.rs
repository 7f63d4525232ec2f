//! Aggregation: groups and versions that another server serves, announced by an APIService.
//!
//! [`api_service`] reads the object, [`registration`] keeps those of this server's own groups, [`availability`] asks the
//! others whether they answer, [`table`] says who serves what at the moment, and [`discovery`] and
//! [`openapi`] tell clients of it. Requests are passed on by `endpoints/aggregated.rs`. Corresponds to k8s.io/kube-aggregator.

pub mod api_service;
pub mod registration;
pub mod table;
pub mod identity;
mod asking;
pub mod availability;
pub mod discovery;
mod merged;
pub mod openapi;

pub use table::Aggregation;
