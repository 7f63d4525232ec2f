//! What becomes of a volume: its phase, and its release when its claim is gone or has another volume.
//!
//! Corresponds to syncVolume in pkg/controller/volume/persistentvolume/pv_controller.go.

use super::bind::{phase, unbind};
use super::reclaim;
use crate::volume::{claims, volumes};
use client::Plan;
use component_helpers::volumes::annotations::{PROVISIONED_BY, has_annotation};
use controller_base::actions;
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use std::sync::Arc;

#[derive(Debug)]
pub struct Observed {
    pub volume: Arc<PersistentVolume>,
    /// The claim with the name and the uid that the volume refers to.
    pub claim: Option<Arc<PersistentVolumeClaim>>,
}

impl Observed {
    /// Returns true if the volume's claim is gone, and this round would say so for the first time.
    pub fn is_about_to_be_released(&self) -> bool {
        self.claim.is_none() && !volumes::claim_uid(&self.volume).is_empty() && !volumes::is_released(&self.volume)
    }
}

pub fn plan(observed: &Observed) -> Plan {
    let volume = &*observed.volume;
    if volumes::claim_uid(volume).is_empty() {
        return Plan::of(phase(volume, volumes::AVAILABLE, ""));
    }
    let Some(claim) = observed.claim.as_deref() else { return reclaim::plan(volume) };
    match claims::volume_name(claim) {
        "" if claims::volume_mode(claim) != volumes::volume_mode(volume) => modes_differ(volume, claim),
        // The round of the claim goes on with the binding.
        "" => Plan::default(),
        name if name == volume.name() => Plan::of(phase(volume, volumes::BOUND, "")),
        _ if is_superfluous(volume) => reclaim::plan(volume),
        _ => Plan::of([unbind(volume)]),
    }
}

/// Returns true if the volume was made for a claim that has got another one.
fn is_superfluous(volume: &PersistentVolume) -> bool {
    has_annotation(volume, PROVISIONED_BY) && volumes::reclaim_policy(volume) == "Delete"
}

fn modes_differ(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Plan {
    const WHY: &str = "due to incompatible volumeMode.";
    let (volume_name, claim_name) = (volume.name(), claim.name());
    let of_volume = format!("Cannot bind PersistentVolume to requested PersistentVolumeClaim {claim_name:?} {WHY}");
    let of_claim = format!("Cannot bind PersistentVolume {volume_name:?} to requested PersistentVolumeClaim {WHY}");
    Plan::of([
        actions::warning(volume, "VolumeMismatch", of_volume),
        actions::warning(claim, "VolumeMismatch", of_claim),
    ])
}
