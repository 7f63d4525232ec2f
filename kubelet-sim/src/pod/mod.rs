//! The life of one pod on a node, decided by pure functions.

pub mod conditions;
pub mod container;
pub mod lifecycle;
pub mod patch;
pub mod script;
