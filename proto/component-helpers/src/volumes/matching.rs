//! Which volume fits a claim: class, size, modes and labels, and among those that fit the smallest.
//!
//! Corresponds to FindMatchingVolume in k8s.io/component-helpers/storage/volume/pv_helpers.go, and to
//! pkg/controller/volume/persistentvolume/index.go.
//!
//! Deviation: a volume that is reserved for the claim comes before all others. In Kubernetes, a volume with fewer access modes
//! comes before one that is reserved.

use crate::volumes::{claims, persistent_volumes as volumes};
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use proto::meta::label_selector;
use std::collections::{BTreeMap, BTreeSet};

/// Returns why a volume cannot be bound to a claim, in the words of the event VolumeMismatch; `None` if it can.
pub fn mismatch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<String> {
    let why = if volume.is_deleting() {
        return Some(format!("the volume is marked for deletion {:?}", volume.name()));
    } else if volumes::capacity(volume) < claims::requested(claim) {
        "requested PV is too small"
    } else if volumes::class(volume) != claims::class(claim) {
        "storageClassName does not match"
    } else if volumes::attributes_class(volume) != claims::attributes_class(claim) {
        "volumeAttributesClassName does not match"
    } else if volumes::volume_mode(volume) != claims::volume_mode(claim) {
        "incompatible volumeMode"
    } else if !has_access_modes(volume, claim) {
        "incompatible accessMode"
    } else {
        return None;
    };
    Some(why.to_owned())
}

fn has_access_modes(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    claims::access_modes(claim).iter().all(|mode| volumes::access_modes(volume).contains(mode))
}

/// Returns true if the claim may take the volume, which nobody has claimed and which is not reserved.
pub fn is_free_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let selector = claim.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let no_labels = BTreeMap::new();
    let is_selected = selector.is_none()
        || label_selector::from_typed(selector)
            .is_ok_and(|selector| selector.matches(volume.metadata.labels.as_ref().unwrap_or(&no_labels)));
    volumes::claim_ref(volume).is_none()
        && volumes::phase(volume) == volumes::AVAILABLE
        && is_selected
        && mismatch(volume, claim).is_none()
}

/// Returns true if the volume is reserved for the claim, and large enough. Its class does not matter, nor do labels.
pub fn is_reserved_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    volumes::is_bound_to(volume, claim)
        && !volume.is_deleting()
        && volumes::capacity(volume) >= claims::requested(claim)
        && volumes::attributes_class(volume) == claims::attributes_class(claim)
        && volumes::volume_mode(volume) == claims::volume_mode(claim)
        && has_access_modes(volume, claim)
}

/// Returns the volume for a claim that names none. A free volume with few access modes comes before one with more, then a
/// small one before a large one. A claim that waits for its first consumer takes only a volume that is reserved for it.
pub fn best<'a, V: AsRef<PersistentVolume>>(
    claim: &PersistentVolumeClaim,
    candidates: &'a [V],
    waits_for_consumer: bool,
) -> Option<&'a PersistentVolume> {
    let candidates = || candidates.iter().map(AsRef::as_ref);
    if let Some(reserved) = candidates().find(|volume| is_reserved_for(volume, claim)) {
        return Some(reserved);
    }
    if waits_for_consumer {
        return None;
    }
    let modes = |volume: &PersistentVolume| volumes::access_modes(volume).iter().collect::<BTreeSet<_>>().len();
    candidates()
        .filter(|volume| is_free_for(volume, claim))
        .min_by_key(|volume| (modes(volume), volumes::capacity(volume), volume.name().to_owned()))
}
