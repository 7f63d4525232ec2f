//! The life of one pod on a node: decided by pure functions, written by `sync`.

pub mod conditions;
pub mod container;
pub mod lifecycle;
pub mod memory;
pub mod patch;
pub mod script;
pub mod sync;
