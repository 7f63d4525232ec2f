//! Volumes and claims, as controllers, scheduler and nodes know them: what they say of themselves, which volume fits a claim, and
//! the names of volumes that drivers attach to nodes.
//!
//! Corresponds to k8s.io/component-helpers/storage/volume, pkg/volume/csi and k8s.io/csi-translation-lib.

pub mod migrated;
pub mod csi_volume;
pub mod annotations;
pub mod claims;
pub mod pod_volumes;
pub mod persistent_volumes;
pub mod binding;
pub mod matching;
pub mod volume_files;
