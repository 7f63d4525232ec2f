//! Eviction of pods by a node that runs out of memory, disk or processes.
//!
//! Corresponds to pkg/kubelet/eviction. Pure: a manager is told what is available at a time, and decides which pressure
//! there is and which pod goes. Read `signal`, `threshold`, `rank`, then `manager`.

pub mod signal;
pub mod threshold;
pub mod load;
pub mod rank;
pub mod message;
pub mod local_storage;
pub mod manager;

#[cfg(test)]
mod tests;
