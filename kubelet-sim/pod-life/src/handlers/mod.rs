//! Runs the hooks and probes of a container, and derives its health from them.
//!
//! Corresponds to pkg/kubelet/lifecycle and pkg/kubelet/prober.

pub mod served;
pub mod target;
pub mod hook;
pub mod probe;
pub mod health;
