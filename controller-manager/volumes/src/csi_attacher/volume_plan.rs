//! Plans the end of a PersistentVolume: it may go once it is attached nowhere.
//!
//! Corresponds to SyncNewOrUpdatedPersistentVolume of external-attacher.

use super::finalizer;
use client::Plan;
use proto::Kind;
use proto::kinds::api::core::v1::PersistentVolume;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Observed {
    pub volume: Arc<PersistentVolume>,
    pub driver: String,
    /// True if there is an attachment of the volume.
    pub is_attached: bool,
}

pub fn plan(observed: &Observed) -> Plan {
    let Observed { volume, driver, is_attached } = observed;
    let finalizer = finalizer::name(driver);
    if !volume.is_deleting() || *is_attached || !finalizer::has(&**volume, &finalizer) {
        return Plan::default();
    }
    Plan::of([finalizer::remove(&**volume, &finalizer)])
}
