//! The life of one container, from its image to its last exit.
//!
//! Corresponds to pkg/kubelet/kuberuntime and pkg/kubelet/images. Read `life` first.

pub mod back_off;
pub mod image_pull;
pub mod restart;
pub mod exit;
pub mod start;
pub mod kill;
pub mod life;
