//! The life of one pod on a node: decided by pure functions, written by `sync`.

// The whole life, step by step.
pub mod lifecycle;
pub mod admission;
pub mod ending;
pub mod phase;
pub mod conditions;

// One container's.
pub mod view;
pub mod state;
pub mod container;
pub mod image_pull;
pub mod restart;
pub mod script;
pub mod progress;

// What is remembered and written.
pub mod memory;
pub mod patch;
pub mod sync;
