//! The life of one pod on a node, decided by pure functions; `fleet::pod_sync` writes what they decide.
//!
//! Read `lifecycle` first: its `step` is the whole life, and calls everything else here.

// What a container is, and what it is said to do.
pub mod state;
pub mod needs;
pub mod outcomes;
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
pub mod mounts;
pub mod ending;
pub mod phase;
pub mod conditions;
pub mod resize;
pub mod lifecycle;

// The statuses that were written, and the patch that writes the next one.
pub mod memory;
pub mod patch;
