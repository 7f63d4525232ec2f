//! The volumes of claims on a node: which are attached, and which pods use them.
//!
//! Corresponds to pkg/kubelet/volumemanager.

pub mod in_use;
pub mod claim_reader;
pub mod csi_node;
