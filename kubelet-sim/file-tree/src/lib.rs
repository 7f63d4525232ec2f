//! The files of a simulated container: a tree of nodes, with volumes mounted into it.
//!
//! Corresponds to the mount namespace that a container runtime prepares. Read `node` first, then `volume`, then
//! `mounts`. `lookup` resolves paths. `disk` is what a volume needs to outlast the process.

pub mod error;
pub mod attributes;
pub mod disk;
pub mod space;
pub mod node;
pub mod volume;
pub mod payload;
pub mod actor;
pub mod place;
pub mod mounts;
pub mod lookup;
pub mod operations;

#[cfg(test)]
mod tests;
