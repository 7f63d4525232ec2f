//! The garbage collector deletes objects without owners, deletes dependents before their owner in foreground deletion,
//! and removes the references of orphaned dependents.
//!
//! Corresponds to pkg/controller/garbagecollector.

pub mod entry;
pub mod graph;
pub mod absent;
pub mod monitors;
pub mod decide;
pub mod server;
pub mod deletion;
pub mod orphaning;
pub mod controller;
