//! The programs of simulated containers: a shell and its usual programs, which run in virtual time.
//!
//! There is no Kubernetes counterpart: a real container runs the programs of its image on a kernel. This crate does no
//! IO and reads no clock. What a container writes follows from its command, its variables, its files (`file_tree`) and the time. The
//! modules stand floor by floor: each one uses only those above it.

// What a container's processes run on.
pub mod process;
pub mod network;

// The programs, each a future.
pub mod pattern;
pub mod programs;
pub mod agnhost;
pub mod shell;

// Which program a name means, and what images hold.
pub mod launch;
pub mod image;

#[cfg(test)]
mod tests;
