//! Simulated nodes: one process registers many, keeps their leases and statuses, and lives their pods' lives.
//!
//! Corresponds to pkg/kubelet. Machines and containers are simulated; everything that the API server sees of them
//! is what a kubelet would write.

pub mod addresses;
pub mod config;
pub mod duration;
pub mod images;
pub mod lease;
pub mod machine;
pub mod node;
pub mod pod;
