//! What a kubelet asks of a running container: its hooks and its probes, and the health that follows.
//!
//! Corresponds to pkg/kubelet/lifecycle and pkg/kubelet/prober.

pub mod target;
pub mod hook;
pub mod probe;
pub mod health;
