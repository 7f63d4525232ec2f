//! Conditions of PersistentVolumeClaims, and the indexes by which they are found.
//!
//! Corresponds to k8s.io/component-helpers/storage/volume/helpers.go.

use client::Informer;
pub use component_helpers::volumes::claims::*;
use controller_base::clock;
use jiff::Timestamp;
use proto::kinds::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimCondition, PersistentVolumeClaimStatus};

/// Claims that are not bound yet, by their class; claims without a class by the empty name.
pub const UNBOUND_BY_CLASS: &str = "unboundByClass";
/// Claims by the volume that they name.
pub const CLAIMS_BY_VOLUME: &str = "volumeName";

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
