//! Keys of the labels of nodes that components read and write. Volumes and pods have some of them too.
//!
//! Corresponds to well_known_labels.go of k8s.io/api/core/v1.

/// The name by which the machine knows itself.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
pub const OS: &str = "kubernetes.io/os";
pub const ARCH: &str = "kubernetes.io/arch";
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// The part of a region that fails as a whole.
pub const ZONE: &str = "topology.kubernetes.io/zone";
pub const REGION: &str = "topology.kubernetes.io/region";

/// The former keys, which clusters still write beside the present ones.
pub const BETA_OS: &str = "beta.kubernetes.io/os";
pub const BETA_ARCH: &str = "beta.kubernetes.io/arch";
pub const BETA_INSTANCE_TYPE: &str = "beta.kubernetes.io/instance-type";
pub const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
pub const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";

/// An administrator's: the node does not count in the states of zones.
pub const EXCLUDE_DISRUPTION: &str = "node.kubernetes.io/exclude-disruption";
/// An administrator's: load balancers send the node no traffic.
pub const EXCLUDE_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
