//! Properties of PersistentVolumeClaims: class, size, phase, and the volume that one names.
//!
//! Corresponds to k8s.io/component-helpers/storage/volume/helpers.go.

use super::annotations::{BETA_STORAGE_CLASS, BIND_COMPLETED, annotation, has_annotation};
use client::Informer;
use controller_base::clock;
use jiff::Timestamp;
use proto::kinds::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimCondition, PersistentVolumeClaimStatus};
use proto::meta::quantity::Quantity;

/// Claims that are not bound yet, by their class; claims without a class by the empty name.
pub const UNBOUND_BY_CLASS: &str = "unboundByClass";
/// Claims by the volume that they name.
pub const CLAIMS_BY_VOLUME: &str = "volumeName";

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

/// Sets a condition to true, if it is not there.
pub fn set_condition(status: &mut PersistentVolumeClaimStatus, type_: &str, now: Timestamp) {
    let conditions = status.conditions.get_or_insert_default();
    if !conditions.iter().any(|condition| condition.type_ == type_) {
        conditions.push(PersistentVolumeClaimCondition {
            type_: type_.to_owned(),
            status: "True".to_owned(),
            last_transition_time: Some(clock::stamp(now)),
            ..PersistentVolumeClaimCondition::default()
        });
    }
}

pub fn remove_conditions(status: &mut PersistentVolumeClaimStatus, types: &[&str]) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| !types.contains(&condition.type_.as_str()));
    }
}

pub fn index(claims: &Informer<PersistentVolumeClaim>) {
    claims.index(UNBOUND_BY_CLASS, |claim| match is_bind_completed(claim) {
        true => Vec::new(),
        false => vec![class(claim).to_owned()],
    });
    claims.index(CLAIMS_BY_VOLUME, |claim| match volume_name(claim) {
        "" => Vec::new(),
        volume => vec![volume.to_owned()],
    });
}
