//! The controllers of storage: they bind claims to volumes, make and delete simulated volumes, and attach volumes to nodes.
//!
//! Read `volume::binder` first. Corresponds to pkg/controller/volume, and to the programs of kubernetes-csi that run beside a
//! driver.

pub mod volume;
pub mod attach_detach;
pub mod csi_attacher;
