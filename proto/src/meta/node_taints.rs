//! Keys of the taints that say what is wrong with a node.
//!
//! Corresponds to well_known_taints.go of k8s.io/api/core/v1.

pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Nobody hears from the node.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The node is cordoned.
pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
pub const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";
pub const DISK_PRESSURE: &str = "node.kubernetes.io/disk-pressure";
pub const PID_PRESSURE: &str = "node.kubernetes.io/pid-pressure";
/// Pods would have no network.
pub const NETWORK_UNAVAILABLE: &str = "node.kubernetes.io/network-unavailable";
/// An administrator's: the machine is off.
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
