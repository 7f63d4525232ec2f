//! Tables of volumes, and of what the binder plans for each.
//!
//! Corresponds to the test sets 4, 7 and 8 of binder_test.go, delete_test.go and recycle_test.go in
//! pkg/controller/volume/persistentvolume.

use super::volume_plan::{Observed, plan};
use crate::volume::fixture::{claim, completed, in_phase, refer, show, volume};
use component_helpers::volumes::annotations::{BOUND_BY_CONTROLLER, PROVISIONED_BY, YES};
use controller_base::fixture::annotate;
use proto::kinds::api::core::v1::{HostPathVolumeSource, PersistentVolume, PersistentVolumeClaim};
use std::sync::Arc;

fn round(volume: PersistentVolume, claim: Option<PersistentVolumeClaim>) -> String {
    show(&plan(&Observed { volume: Arc::new(volume), claim: claim.map(Arc::new) }))
}

fn phase(phase: &str) -> String {
    format!("update persistentvolumes/status v {{\"phase\":\"{phase}\"}}\n")
}

fn with_policy(policy: &str) -> PersistentVolume {
    let mut volume = in_phase(refer(volume("v", "1Gi", ""), "c", "uid-c"), "Released");
    volume.spec.get_or_insert_default().persistent_volume_reclaim_policy = Some(policy.to_owned());
    volume
}

fn on_host(mut volume: PersistentVolume, path: &str) -> PersistentVolume {
    let spec = volume.spec.get_or_insert_default();
    spec.csi = None;
    spec.host_path = Some(HostPathVolumeSource { path: path.to_owned(), type_: None });
    volume
}

#[test]
fn the_phase_follows_the_claim() {
    let free = || volume("v", "1Gi", "");
    let bound = || refer(free(), "c", "uid-c");
    let of_claim = |name: &str| Some(completed(claim("c", Some("")), name));
    for (volume, claim, expected) in [
        (in_phase(free(), "Pending"), None, phase("Available")),
        (free(), None, String::new()),
        (in_phase(refer(free(), "c", ""), "Pending"), None, phase("Available")),
        // An administrator has taken the reference away.
        (in_phase(free(), "Released"), None, phase("Available")),
        (bound(), of_claim("v"), phase("Bound")),
        (in_phase(bound(), "Bound"), of_claim("v"), String::new()),
        // The claim's round goes on.
        (bound(), Some(claim("c", Some(""))), String::new()),
        (in_phase(bound(), "Bound"), None, phase("Released")),
        (in_phase(bound(), "Failed"), None, String::new()),
    ] {
        assert_eq!(round(volume.clone(), claim), expected, "{volume:?}");
    }
}

#[test]
fn a_volume_whose_claim_went_elsewhere_is_taken_back() {
    let elsewhere = || Some(completed(claim("c", Some("")), "other"));
    let mut ours = in_phase(refer(volume("v", "1Gi", ""), "c", "uid-c"), "Bound");
    assert_eq!(round(ours.clone(), elsewhere()), "volume v → default/c\n", "a user reserved it");
    annotate(&mut ours, &[(BOUND_BY_CONTROLLER, YES)]);
    assert_eq!(round(ours.clone(), elsewhere()), "volume v →\n");
    annotate(&mut ours, &[(PROVISIONED_BY, "disks.example.com")]);
    assert_eq!(round(ours.clone(), elsewhere()), "volume v →  provisioned-by=disks.example.com\n");
    ours.spec.get_or_insert_default().persistent_volume_reclaim_policy = Some("Delete".to_owned());
    assert_eq!(round(ours, elsewhere()), phase("Released"), "nobody else needs what was made for the claim");
}

#[test]
fn the_policy_decides_about_a_released_volume() {
    let failed = |reason: &str, text: &str| {
        let quoted = text.replace('"', "\\\"");
        format!(
            "update persistentvolumes/status v {{\"message\":\"{quoted}\",\"phase\":\"Failed\"}}\nevent Warning {reason} \
             PersistentVolume v: {text}\n"
        )
    };
    let mut provisioned = with_policy("Delete");
    annotate(&mut provisioned, &[(PROVISIONED_BY, "disks.example.com")]);
    for (volume, expected) in [
        (with_policy("Retain"), String::new()),
        (provisioned, String::new()),
        (on_host(with_policy("Delete"), "/tmp/a"), "delete persistentvolumes v uid=uid-v\n".to_owned()),
        (
            on_host(with_policy("Delete"), "/data"),
            failed("VolumeFailedDelete", "host_path deleter only supports /tmp/.+ but received provided /data"),
        ),
        (
            with_policy("Delete"),
            failed(
                "VolumeFailedDelete",
                "error getting deleter volume plugin for volume \"v\": no volume plugin matched",
            ),
        ),
        (with_policy("Recycle"), failed("VolumeFailedRecycle", "No recycler plugin found for the volume!")),
        (in_phase(with_policy("Recycle"), "Failed"), String::new()),
        (
            with_policy("Forget"),
            failed("VolumeUnknownReclaimPolicy", "Volume has an unrecognized PersistentVolumeReclaimPolicy"),
        ),
    ] {
        assert_eq!(round(volume.clone(), None), expected, "{volume:?}");
    }
}

#[test]
fn modes_that_differ_are_said_on_both_sides() {
    let mut block = refer(volume("v", "1Gi", ""), "c", "uid-c");
    block.spec.get_or_insert_default().volume_mode = Some("Block".to_owned());
    assert_eq!(
        round(block, Some(claim("c", Some("")))),
        "event Warning VolumeMismatch PersistentVolume v: Cannot bind PersistentVolume to requested PersistentVolumeClaim \
         \"c\" due to incompatible volumeMode.\nevent Warning VolumeMismatch PersistentVolumeClaim default/c: Cannot bind \
         PersistentVolume \"v\" to requested PersistentVolumeClaim due to incompatible volumeMode.\n"
    );
}
