//! What becomes of a volume whose claim is gone: it is kept, deleted by its provisioner, or has failed.
//!
//! Corresponds to reclaimVolume, deleteVolumeOperation and recycleVolumeOperation in
//! pkg/controller/volume/persistentvolume/pv_controller.go.
//!
//! Deviation: no volume is recycled. Kubernetes starts a pod that empties a hostPath or NFS volume; here such a volume becomes
//! Failed, as those of all other sources do there, so its data is never given to another claim.

use super::bind::phase;
use crate::volume::volumes;
use client::Plan;
use component_helpers::volumes::annotations::{PROVISIONED_BY, annotation};
use controller_base::actions;
use proto::Kind;
use proto::kinds::api::core::v1::PersistentVolume;

/// Folder of the hostPath volumes that the controller manager may delete.
const DELETABLE_HOST_PATHS: &str = "/tmp/";

/// Plans for a volume whose claim is gone: first its phase, then what the policy says.
pub fn plan(volume: &PersistentVolume) -> Plan {
    if !volumes::is_released(volume) {
        return Plan::of(phase(volume, volumes::RELEASED, ""));
    }
    match volumes::reclaim_policy(volume) {
        "Retain" => Plan::default(),
        "Delete" => delete(volume),
        "Recycle" => failed(volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!"),
        _ => failed(volume, "VolumeUnknownReclaimPolicy", "Volume has an unrecognized PersistentVolumeReclaimPolicy"),
    }
}

/// Plans the deletion of a volume. A provisioner deletes what it made, and its object after it.
fn delete(volume: &PersistentVolume) -> Plan {
    let provisioner = annotation(volume, PROVISIONED_BY).unwrap_or_default();
    if !provisioner.is_empty() && !provisioner.starts_with("kubernetes.io/") {
        return Plan::default();
    }
    let host_path = volume.spec.as_ref().and_then(|spec| spec.host_path.as_ref()).map(|source| source.path.as_str());
    match host_path {
        Some(path) if path.starts_with(DELETABLE_HOST_PATHS) && volume.is_deleting() => Plan::default(),
        Some(path) if path.starts_with(DELETABLE_HOST_PATHS) => Plan::of([actions::delete_exactly(volume)]),
        Some(path) => {
            let message = format!("host_path deleter only supports /tmp/.+ but received provided {path}");
            failed(volume, "VolumeFailedDelete", &message)
        }
        None => {
            let name = volume.name();
            let message = format!("error getting deleter volume plugin for volume {name:?}: no volume plugin matched");
            failed(volume, "VolumeFailedDelete", &message)
        }
    }
}

fn failed(volume: &PersistentVolume, reason: &str, message: &str) -> Plan {
    let status = phase(volume, volumes::FAILED, message);
    let event = status.is_some().then(|| actions::warning(volume, reason, message));
    Plan::of(status.into_iter().chain(event))
}
