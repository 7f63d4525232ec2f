//! The attach-detach controller attaches volumes to the nodes whose pods use them, and detaches them afterwards.
//!
//! It creates and deletes VolumeAttachments, which the driver's attacher carries out, and reports in each node's status
//! what is attached there. Two rounds work together: `volume_plan` decides about one volume on all nodes, `node_plan`
//! about the report of one node. A volume is attached, then reported, then mounted; it is unmounted, then no longer
//! reported, then detached. Corresponds to pkg/controller/volume/attachdetach and pkg/volume/csi/csi_attacher.go.

pub mod attachment;
pub mod ledger;
pub mod place;
pub mod observe;
pub mod multi_attach;
pub mod volume_plan;
pub mod node_plan;
pub mod metrics;
pub mod triggers;
pub mod controller;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod trigger_tests;
