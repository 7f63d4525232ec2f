//! The volume's side of a binding: its reference to the claim. Binder and scheduler write it.
//!
//! Corresponds to GetBindVolumeToClaim in k8s.io/component-helpers/storage/volume/pv_helpers.go.

use crate::volumes::annotations::{BOUND_BY_CONTROLLER, YES, annotate};
use crate::volumes::persistent_volumes as volumes;
use proto::Kind;
use proto::kinds::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};

/// Returns the reference to a claim that its volume has.
pub fn reference(claim: &PersistentVolumeClaim) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some(PersistentVolumeClaim::KIND.to_owned()),
        namespace: Some(claim.namespace().to_owned()),
        name: Some(claim.name().to_owned()),
        uid: Some(claim.uid().to_owned()),
        resource_version: Some(claim.resource_version().to_owned()),
        ..ObjectReference::default()
    }
}

/// Returns the volume with its reference to the claim; `None` if it has one. A volume that was reserved for the claim is
/// not marked as bound by the controller.
pub fn referring_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<PersistentVolume> {
    let is_ours = volumes::is_bound_to(volume, claim);
    if is_ours && !volumes::claim_uid(volume).is_empty() {
        return None;
    }
    let mut bound = volume.clone();
    bound.spec.get_or_insert_default().claim_ref = Some(reference(claim));
    if !is_ours {
        annotate(&mut bound, BOUND_BY_CONTROLLER, YES);
    }
    Some(bound)
}
