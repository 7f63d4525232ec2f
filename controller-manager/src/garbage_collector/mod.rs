//! The garbage collector: what has lost its owners goes, what is deleted in the foreground waits for its dependents,
//! and what is to be orphaned is let go of first.
//!
//! Corresponds to pkg/controller/garbagecollector.

pub mod controller;
pub mod monitors;
pub mod graph;
pub mod deletion;
pub mod orphaning;
pub mod decide;
pub mod server;
pub mod absent;
