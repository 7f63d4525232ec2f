//! The writes that bind a claim and a volume to each other, and those that undo it.
//!
//! Corresponds to bind, unbindVolume, updateClaimStatus and updateVolumePhase in
//! pkg/controller/volume/persistentvolume/pv_controller.go.

use crate::volume::claims::{self, STORAGE};
use crate::volume::volumes;
use client::{Action, Plan};
use component_helpers::volumes::annotations::{BIND_COMPLETED, BOUND_BY_CONTROLLER, YES, annotate, has_annotation};
use component_helpers::volumes::binding::referring_to;
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use proto::kinds::apimachinery::api::resource::Quantity;
use std::collections::BTreeMap;

/// Plans what the two sides lack: the volume's reference, then the claim's, and the claim's status once both are there. The
/// volume's phase is up to the rounds of volumes.
pub fn bind(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Plan {
    let references: Vec<Action> = [
        referring_to(volume, claim).map(|volume| Action::update(&volume)),
        naming(claim, volume).map(|claim| Action::update(&claim)),
    ]
    .into_iter()
    .flatten()
    .collect();
    if references.is_empty() { Plan::of(bound_status(claim, volume)) } else { Plan::of(references) }
}

/// Returns the claim with the volume's name and the mark of a complete binding; `None` if it has both.
fn naming(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<PersistentVolumeClaim> {
    let names_it = claims::volume_name(claim) == volume.name();
    if names_it && claims::is_bind_completed(claim) {
        return None;
    }
    let mut bound = claim.clone();
    if !names_it {
        bound.spec.get_or_insert_default().volume_name = Some(volume.name().to_owned());
        annotate(&mut bound, BOUND_BY_CONTROLLER, YES);
    }
    annotate(&mut bound, BIND_COMPLETED, YES);
    Some(bound)
}

/// Plans the status of a bound claim. The capacity and the attributes class are the volume's when the claim becomes bound;
/// later they are up to those who resize and modify volumes.
fn bound_status(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<Action> {
    let mut bound = claim.clone();
    let status = bound.status.get_or_insert_default();
    let spec = volume.spec.as_ref();
    status.access_modes = spec.and_then(|spec| spec.access_modes.clone());
    if claims::phase(claim) != volumes::BOUND {
        status.phase = Some(volumes::BOUND.to_owned());
        let capacity = spec.and_then(|spec| spec.capacity.clone());
        let size = |capacity: Option<&BTreeMap<String, Quantity>>| capacity?.get(STORAGE).cloned();
        if size(capacity.as_ref()) != size(status.capacity.as_ref()) {
            status.capacity = capacity;
        }
        status.current_volume_attributes_class_name = spec.and_then(|spec| spec.volume_attributes_class_name.clone());
    }
    (bound.status != claim.status).then(|| Action::update_status(&bound))
}

/// Plans the status of a claim that has no volume; `None` if it has that status.
pub fn unbound_status(claim: &PersistentVolumeClaim, phase: &str) -> Option<Action> {
    let mut unbound = claim.clone();
    let status = unbound.status.get_or_insert_default();
    status.phase = Some(phase.to_owned());
    (status.access_modes, status.capacity, status.current_volume_attributes_class_name) = (None, None, None);
    (unbound.status != claim.status).then(|| Action::update_status(&unbound))
}

/// Plans the phase of a volume; `None` if it has that phase.
pub fn phase(volume: &PersistentVolume, phase: &str, message: &str) -> Option<Action> {
    if volumes::phase(volume) == phase {
        return None;
    }
    let mut changed = volume.clone();
    let status = changed.status.get_or_insert_default();
    status.phase = Some(phase.to_owned());
    status.message = (!message.is_empty()).then(|| message.to_owned());
    Some(Action::update_status(&changed))
}

/// Takes the volume from its claim, which has another one. A volume that a user reserved stays reserved for the name.
pub fn unbind(volume: &PersistentVolume) -> Action {
    let mut free = volume.clone();
    let spec = free.spec.get_or_insert_default();
    if has_annotation(volume, BOUND_BY_CONTROLLER) {
        spec.claim_ref = None;
        if let Some(annotations) = &mut free.metadata.annotations {
            annotations.remove(BOUND_BY_CONTROLLER);
        }
    } else if let Some(claim) = &mut spec.claim_ref {
        claim.uid = None;
    }
    Action::update(&free)
}
