//! The volumes of claims on a node: which are attached, which pods use them, and where their files are.
//!
//! Corresponds to pkg/kubelet/volumemanager.

pub mod in_use;
pub mod claim_reader;
pub mod csi_node;
pub mod disk_volume;
pub mod store;

#[cfg(test)]
mod store_tests;
