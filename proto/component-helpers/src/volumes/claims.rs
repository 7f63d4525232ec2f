//! Properties of PersistentVolumeClaims: class, size, phase, and the volume that one names.
//!
//! Corresponds to k8s.io/component-helpers/storage/volume/helpers.go.

use super::annotations::{BETA_STORAGE_CLASS, BIND_COMPLETED, annotation, has_annotation};
use proto::kinds::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimStatus};
use proto::kinds::api::storage::v1::StorageClass;
use proto::meta::quantity::Quantity;

/// The resource that a claim requests and a volume has.
pub const STORAGE: &str = "storage";

/// Returns the class; empty for a claim without one.
pub fn class(claim: &PersistentVolumeClaim) -> &str {
    let field = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
    annotation(claim, BETA_STORAGE_CLASS).or(field).unwrap_or_default()
}

/// Returns true if the claim names a class, or the empty class: it gets no default class.
pub fn names_class(claim: &PersistentVolumeClaim) -> bool {
    has_annotation(claim, BETA_STORAGE_CLASS)
        || claim.spec.as_ref().is_some_and(|spec| spec.storage_class_name.is_some())
}

pub fn volume_name(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default()
}

pub fn access_modes(claim: &PersistentVolumeClaim) -> &[String] {
    claim.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default()
}

pub fn volume_mode(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref()).unwrap_or("Filesystem")
}

pub fn attributes_class(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref()).unwrap_or_default()
}

/// Returns the requested size; zero if there is none.
pub fn requested(claim: &PersistentVolumeClaim) -> Quantity {
    let requests = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref()?.requests.as_ref());
    requests.and_then(|all| all.get(STORAGE)).and_then(|size| Quantity::parse(&size.0).ok()).unwrap_or(Quantity::ZERO)
}

/// Returns the size that a bound claim has.
pub fn size(claim: &PersistentVolumeClaim) -> Option<Quantity> {
    let capacity = claim.status.as_ref()?.capacity.as_ref()?.get(STORAGE)?;
    Quantity::parse(&capacity.0).ok()
}

/// Returns true if the claim was bound completely once.
pub fn is_bind_completed(claim: &PersistentVolumeClaim) -> bool {
    has_annotation(claim, BIND_COMPLETED)
}

pub fn status(claim: &PersistentVolumeClaim) -> PersistentVolumeClaimStatus {
    claim.status.clone().unwrap_or_default()
}

pub fn phase(claim: &PersistentVolumeClaim) -> &str {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Returns true if the volume of a claim of this class is chosen when its first pod has a node.
pub fn waits_for_consumer(class: Option<&StorageClass>) -> bool {
    class.is_some_and(|class| class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"))
}
