//! Properties of PersistentVolumes: class, capacity, phase, and the claim that one refers to.
//!
//! Corresponds to k8s.io/component-helpers/storage/volume.

use super::annotations::{BETA_STORAGE_CLASS, annotation};
use super::claims::STORAGE;
use proto::Kind;
use proto::kinds::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use proto::meta::quantity::Quantity;

pub const AVAILABLE: &str = "Available";
pub const BOUND: &str = "Bound";
pub const RELEASED: &str = "Released";
pub const FAILED: &str = "Failed";

/// Returns the class; empty for a volume without one.
pub fn class(volume: &PersistentVolume) -> &str {
    let field = volume.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
    annotation(volume, BETA_STORAGE_CLASS).or(field).unwrap_or_default()
}

pub fn capacity(volume: &PersistentVolume) -> Quantity {
    let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()?.get(STORAGE));
    capacity.and_then(|size| Quantity::parse(&size.0).ok()).unwrap_or(Quantity::ZERO)
}

pub fn access_modes(volume: &PersistentVolume) -> &[String] {
    volume.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default()
}

pub fn volume_mode(volume: &PersistentVolume) -> &str {
    volume.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref()).unwrap_or("Filesystem")
}

pub fn attributes_class(volume: &PersistentVolume) -> &str {
    volume.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref()).unwrap_or_default()
}

pub fn reclaim_policy(volume: &PersistentVolume) -> &str {
    volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref()).unwrap_or_default()
}

pub fn phase(volume: &PersistentVolume) -> &str {
    volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Returns true if its claim is gone. A volume whose reclaim has failed stays so.
pub fn is_released(volume: &PersistentVolume) -> bool {
    matches!(phase(volume), RELEASED | FAILED)
}

pub fn claim_ref(volume: &PersistentVolume) -> Option<&ObjectReference> {
    volume.spec.as_ref()?.claim_ref.as_ref()
}

/// Returns the uid of the claim that the volume refers to; empty if it is only reserved for a name, or free.
pub fn claim_uid(volume: &PersistentVolume) -> &str {
    claim_ref(volume).and_then(|claim| claim.uid.as_deref()).unwrap_or_default()
}

/// Returns the key of the claim that the volume refers to.
pub fn claim_key(volume: &PersistentVolume) -> Option<String> {
    claim_ref(volume).map(reference_key)
}

fn reference_key(claim: &ObjectReference) -> String {
    let (namespace, name) = (claim.namespace.as_deref().unwrap_or_default(), claim.name.as_deref().unwrap_or_default());
    format!("{namespace}/{name}")
}

/// Returns true if the volume refers to this claim, or is reserved for a claim of this name.
pub fn is_bound_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let uid = claim_uid(volume);
    claim_key(volume).is_some_and(|key| key == claim.key()) && (uid.is_empty() || uid == claim.uid())
}
