//! What a pod needs before it can start: the objects that it refers to, its variables, the files of its volumes.
//!
//! Corresponds to pkg/kubelet/kubelet_pods.go and pkg/volume. All of it is pure: `fleet::objects`
//! reads the objects.

pub mod references;
pub mod downward;
pub mod environment;
pub mod volume_files;
pub mod resolver;
