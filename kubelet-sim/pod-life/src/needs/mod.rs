//! Resolves a pod's references to other objects: its variables, the files of its volumes, its DNS.
//!
//! Corresponds to pkg/kubelet/kubelet_pods.go and pkg/volume. All of it is pure: `objects` reads the objects.

pub mod claims;
pub mod device_claims;
pub mod references;
pub mod freshness;
pub mod host_paths;
pub mod downward;
pub mod environment;
pub mod volume_files;
pub mod resolver;
