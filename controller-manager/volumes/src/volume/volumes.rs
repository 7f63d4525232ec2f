//! The indexes by which PersistentVolumes are found.
//!
//! Corresponds to pkg/controller/volume/persistentvolume/index.go.

use client::Informer;
pub use component_helpers::volumes::persistent_volumes::*;
use proto::kinds::api::core::v1::PersistentVolume;

/// Volumes that refer to no claim, by their class.
pub const FREE_BY_CLASS: &str = "freeByClass";
/// Volumes by the key of the claim that they refer to.
pub const VOLUMES_BY_CLAIM: &str = "claimRef";

pub fn index(volumes: &Informer<PersistentVolume>) {
    volumes.index(FREE_BY_CLASS, |volume| match claim_ref(volume) {
        Some(_) => Vec::new(),
        None => vec![class(volume).to_owned()],
    });
    volumes.index(VOLUMES_BY_CLAIM, |volume| claim_key(volume).into_iter().collect());
}
