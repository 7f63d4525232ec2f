//! Storage: the controllers of PersistentVolumes and PersistentVolumeClaims.
//!
//! Read in order: what a claim and a volume say (`component_helpers::volumes`, `claims`, `volumes`), how they are bound (`binder`),
//! how objects in use are kept (`protection`), claims of pods (`ephemeral`), and the simulated storage system that makes
//! volumes (`simulated`).
//! Corresponds to pkg/controller/volume.

pub mod claims;
pub mod volumes;
pub mod binder;
pub mod protection;
pub mod ephemeral;
pub mod expand;
pub mod simulated;

#[cfg(test)]
mod fixture;
