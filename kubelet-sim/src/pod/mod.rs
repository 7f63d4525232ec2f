//! The life of one pod on a node, decided by pure functions; `fleet::pod_sync` writes what they decide.
//!
//! Read `lifecycle` first: its `step` is the whole life, and calls everything else here.

// The pod as a whole.
pub mod lifecycle;
pub mod admission;
pub mod ending;
pub mod phase;
pub mod mounts;
pub mod resize;
pub mod conditions;

// One container.
pub mod view;
pub mod state;
pub mod container;
pub mod image_pull;
pub mod restart;
pub mod back_off;
pub mod story;
pub mod story_errors;
pub mod exit;
pub mod hook;
pub mod kill;
pub mod start;
pub mod progress;

// Its probes.
pub mod health;
pub mod probe;
pub mod probe_outcome;
pub mod probe_target;

// What it uses.
pub mod curve;
pub mod usage;

// What a pod refers to.
pub mod references;
pub mod downward;
pub mod environment;
pub mod volume_files;

// The statuses that were written, and the patch that writes the next one.
pub mod notes;
pub mod memory;
pub mod patch;
