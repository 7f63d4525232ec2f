//! The life of one pod on a simulated node, decided by pure functions; the crate `kubelet-sim` writes what they decide.
//!
//! Corresponds to the pod workers of pkg/kubelet and its kuberuntime. This crate does no IO and reads no clock. Read
//! `lifecycle` first: its `step` is the whole life, and calls everything else here. The modules stand floor by floor:
//! each one uses only those above it.

// What a machine has: images, and the time that things take.
pub mod latency;
pub mod images;
pub mod image_name;
pub mod image_pulls;

// What a container is, and what it is said to do.
pub mod state;
pub mod needs;
pub mod outcomes;
pub mod live;
pub mod entrypoint;
pub mod story;
pub mod view;
pub mod notes;
pub mod progress;

// One container.
pub mod handlers;
pub mod container;

// The pod as a whole.
pub mod admission;
pub mod sysctls;
pub mod critical;
pub mod qos;
pub mod preemption;
pub mod numa;
pub mod mounts;
pub mod ending;
pub mod phase;
pub mod conditions;
pub mod resize;
pub mod restart_all;
pub mod outage;
pub mod lifecycle;

// The statuses that were written, and the patch that writes the next one.
pub mod memory;
pub mod patch;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
