//! Aggregation: group versions that another server serves, registered by an APIService.
//!
//! Reading order: [`api_service`] reads the object, and [`registration`] keeps the APIServices of this server's own groups.
//! [`table`] maps each group version to its server. [`identity`] and `fetch` request a server's documents, and
//! [`availability`] checks with them whether it answers. [`discovery`] and [`openapi`] merge its documents with this
//! server's. `endpoints/aggregated.rs` proxies the requests. Corresponds to k8s.io/kube-aggregator.

pub mod api_service;
pub mod registration;
pub mod table;
pub mod identity;
mod fetch;
pub mod availability;
pub mod discovery;
mod merged;
pub mod openapi;

pub use table::Aggregation;
