//! The attacher of simulated CSI drivers carries VolumeAttachments out: it attaches and detaches after the time, or fails
//! with the error, that the volume's attributes say.
//!
//! Real drivers bring such a controller along; without one, their volumes are never attached. It attaches for
//! `simulated.orrery.dev`, and for every driver whose CSIDriver has the annotation `orrery.dev/simulated: "true"`.
//! Corresponds to pkg/controller of github.com/kubernetes-csi/external-attacher.
//!
//! Deviation: the driver does not have to be registered in the node's CSINode.

pub mod behaviour;
pub mod finalizer;
pub mod attachment_plan;
pub mod volume_plan;
pub mod controller;

#[cfg(test)]
mod tests;
