//! The volumes that drivers attach to nodes. The controller manager and the nodes share their names.
//!
//! Corresponds to pkg/volume/csi and k8s.io/csi-translation-lib.

pub mod migrated;
pub mod csi_volume;
