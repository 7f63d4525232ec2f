//! Tables of claims, and of what the binder plans for each.
//!
//! Corresponds to the test sets 1, 2 and 3 of binder_test.go in pkg/controller/volume/persistentvolume.

use super::claim_plan::{Observed, plan};
use crate::volume::fixture::{claim, class, completed, in_phase, naming, refer, show, size, volume};
use component_helpers::volumes::annotations::{SELECTED_NODE, STORAGE_PROVISIONER};
use controller_base::fixture::{annotate, labels};
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use proto::kinds::api::storage::v1::StorageClass;
use proto::kinds::metav1::LabelSelector;
use std::sync::Arc;

fn observed(claim: PersistentVolumeClaim) -> Observed {
    Observed {
        claim: Arc::new(claim),
        named: None,
        candidates: Vec::new(),
        class: None,
        default_class: None,
        unscheduled_pods: Vec::new(),
        enable_dynamic_provisioning: true,
    }
}

fn among(claim: PersistentVolumeClaim, volumes: Vec<PersistentVolume>) -> String {
    let candidates = volumes.into_iter().map(Arc::new).collect();
    show(&plan(&Observed { candidates, ..observed(claim) }))
}

fn named(claim: PersistentVolumeClaim, volume: Option<PersistentVolume>) -> String {
    show(&plan(&Observed { named: volume.map(Arc::new), ..observed(claim) }))
}

fn with_modes(mut volume: PersistentVolume, modes: &[&str]) -> PersistentVolume {
    let modes = modes.iter().map(|mode| (*mode).to_owned()).collect();
    volume.spec.get_or_insert_default().access_modes = Some(modes);
    volume
}

const NO_VOLUME: &str = "event Normal FailedBinding PersistentVolumeClaim default/c: no persistent volumes available for this \
                         claim and no storage class is set\n";

fn bound_to(name: &str, class: &str) -> String {
    format!(
        "volume {name} → default/c uid-c bound-by-controller=yes\nclaim c → {name} class={class} bind-completed=yes \
         bound-by-controller=yes\n"
    )
}

#[test]
fn a_claim_gets_the_smallest_volume_that_fits() {
    let plain = || claim("c", Some(""));
    assert_eq!(among(plain(), vec![]), NO_VOLUME);
    let (small, fitting, large) = (volume("s", "512Mi", ""), volume("f", "2Gi", ""), volume("l", "1Ti", ""));
    assert_eq!(among(plain(), vec![large.clone(), small.clone(), fitting.clone()]), bound_to("f", ""));
    assert_eq!(among(plain(), vec![small]), NO_VOLUME);
    // Fewer access modes come before a smaller size.
    let wide = with_modes(volume("a", "1Gi", ""), &["ReadWriteOnce", "ReadWriteMany"]);
    assert_eq!(among(plain(), vec![wide, large.clone()]), bound_to("l", ""));
    assert_eq!(among(plain(), vec![with_modes(fitting.clone(), &["ReadOnlyMany"])]), NO_VOLUME);
    // Of the same size, the first by name.
    assert_eq!(among(plain(), vec![volume("z", "2Gi", ""), fitting.clone()]), bound_to("f", ""));
}

#[test]
fn class_mode_labels_and_state_have_to_fit() {
    let plain = || claim("c", Some(""));
    let fitting = || volume("f", "2Gi", "");
    let mut block = fitting();
    block.spec.get_or_insert_default().volume_mode = Some("Block".to_owned());
    let mut fast = fitting();
    fast.spec.get_or_insert_default().volume_attributes_class_name = Some("fast".to_owned());
    let mut ending = fitting();
    ending.metadata.deletion_timestamp = Some(controller_base::fixture::time(1));
    for unfit in [
        volume("f", "2Gi", "gold"),
        block,
        fast,
        ending,
        in_phase(fitting(), "Pending"),
        in_phase(refer(fitting(), "c", "uid-former"), "Released"),
        in_phase(refer(fitting(), "other", "uid-other"), "Bound"),
        refer(fitting(), "other", ""),
    ] {
        assert_eq!(among(plain(), vec![unfit.clone()]), NO_VOLUME, "{unfit:?}");
    }
    let mut selecting = plain();
    let selector = LabelSelector { match_labels: Some(labels(&[("tier", "ssd")])), ..LabelSelector::default() };
    selecting.spec.get_or_insert_default().selector = Some(selector);
    assert_eq!(among(selecting.clone(), vec![fitting()]), NO_VOLUME);
    let mut labelled = fitting();
    labelled.metadata.labels = Some(labels(&[("tier", "ssd")]));
    assert_eq!(among(selecting, vec![labelled]), bound_to("f", ""));
}

#[test]
fn a_reserved_volume_comes_first_even_in_another_class() {
    let reserved = refer(volume("r", "5Gi", "gold"), "c", "");
    let plan = among(claim("c", Some("")), vec![volume("f", "1Gi", ""), reserved.clone()]);
    let expected = "volume r → default/c uid-c\nclaim c → r class= bind-completed=yes bound-by-controller=yes\n";
    assert_eq!(plan, expected);
    // A reservation is no excuse for a volume that is too small.
    let small = refer(volume("r", "1Mi", ""), "c", "");
    assert_eq!(among(claim("c", Some("")), vec![small]), NO_VOLUME);
}

#[test]
fn a_binding_that_stopped_half_way_goes_on() {
    let half = refer(volume("v", "1Gi", ""), "c", "uid-c");
    let rest = "claim c → v class= bind-completed=yes bound-by-controller=yes\n";
    assert_eq!(among(claim("c", Some("")), vec![half.clone()]), rest);
    let status = "update persistentvolumeclaims/status default/c \
                  {\"accessModes\":[\"ReadWriteOnce\"],\"capacity\":{\"storage\":\"1Gi\"},\"phase\":\"Bound\"}\n";
    let finished = completed(claim("c", Some("")), "v");
    assert_eq!(named(finished.clone(), Some(half.clone())), status);
    let mut bound = finished.clone();
    let status = bound.status.get_or_insert_default();
    status.phase = Some("Bound".to_owned());
    status.access_modes = Some(vec!["ReadWriteOnce".to_owned()]);
    // The file system may be smaller than the volume: the size of a bound claim is not changed here.
    status.capacity = Some(size("512Mi"));
    assert_eq!(named(bound, Some(half)), "");
    // The volume has lost its reference.
    assert_eq!(named(finished, Some(volume("v", "1Gi", ""))), "volume v → default/c uid-c bound-by-controller=yes\n");
}

#[test]
fn a_claim_may_ask_for_one_volume() {
    let asking = || naming(claim("c", Some("")), "v");
    let event = |kind: &str, text: &str| format!("event Warning {kind} PersistentVolumeClaim default/c: {text}\n");
    let bind = "volume v → default/c uid-c bound-by-controller=yes\nclaim c → v class= bind-completed=yes\n";
    let missing = "event Normal FailedBinding PersistentVolumeClaim default/c: volume \"v\" not found\n";
    assert_eq!(named(asking(), None), missing);
    assert_eq!(named(asking(), Some(volume("v", "1Gi", ""))), bind);
    let reserved = refer(volume("v", "1Mi", ""), "c", "");
    assert_eq!(named(asking(), Some(reserved)), "volume v → default/c uid-c\nclaim c → v class= bind-completed=yes\n");
    let other = refer(volume("v", "1Gi", ""), "other", "uid-other");
    let taken = event("FailedBinding", "volume \"v\" already bound to a different claim.");
    assert_eq!(named(asking(), Some(other)), taken);
    for (unfit, why) in [
        (volume("v", "1Mi", ""), "requested PV is too small"),
        (volume("v", "1Gi", "gold"), "storageClassName does not match"),
        (with_modes(volume("v", "1Gi", ""), &["ReadWriteMany"]), "incompatible accessMode"),
    ] {
        let expected = event("VolumeMismatch", &format!("Cannot bind to requested volume \"v\": {why}"));
        assert_eq!(named(asking(), Some(unfit)), expected);
    }
}

#[test]
fn a_bound_claim_that_has_no_volume_is_lost() {
    let lost = |reason: &str, text: &str| {
        format!(
            "update persistentvolumeclaims/status default/c {{\"phase\":\"Lost\"}}\nevent Warning {reason} \
             PersistentVolumeClaim default/c: {text}\n"
        )
    };
    let bound = || completed(claim("c", Some("")), "v");
    assert_eq!(
        named(bound(), None),
        lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
    );
    assert_eq!(
        named(completed(claim("c", Some("")), ""), None),
        lost("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
    );
    assert_eq!(
        named(bound(), Some(refer(volume("v", "1Gi", ""), "other", "uid-other"))),
        lost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
    );
    let mut known = bound();
    known.status.get_or_insert_default().phase = Some("Lost".to_owned());
    assert_eq!(named(known, None), "");
}

#[test]
fn a_claim_without_class_gets_the_default_class_later() {
    let observed = |claim| Observed { default_class: Some("standard".to_owned()), ..observed(claim) };
    assert_eq!(show(&plan(&observed(claim("c", None)))), "claim c →  class=standard\n");
    // The empty class is a choice.
    assert_eq!(show(&plan(&observed(claim("c", Some(""))))), NO_VOLUME);
}

#[test]
fn a_class_has_its_provisioner_asked() {
    let of = |claim, class: Option<StorageClass>| Observed { class: class.map(Arc::new), ..observed(claim) };
    let gold = || claim("c", Some("gold"));
    let event = |text: &str| format!("event {text}\n");
    assert_eq!(
        show(&plan(&of(gold(), None))),
        event(
            "Warning ProvisioningFailed PersistentVolumeClaim default/c: storageclass.storage.k8s.io \"gold\" not found"
        )
    );
    let disks = || Some(class("gold", "disks.example.com"));
    assert_eq!(
        show(&plan(&of(gold(), disks()))),
        "claim c →  class=gold storage-provisioner=disks.example.com storage-provisioner=disks.example.com\n"
    );
    let mut asking = gold();
    annotate(&mut asking, &[(STORAGE_PROVISIONER, "disks.example.com")]);
    assert!(show(&plan(&of(asking, disks()))).starts_with(
        "event Normal ExternalProvisioning PersistentVolumeClaim default/c: Waiting for a volume to be created either by \
         the external provisioner 'disks.example.com' or manually"
    ));
    assert_eq!(
        show(&plan(&of(gold(), Some(class("gold", "kubernetes.io/no-provisioner"))))),
        event(
            "Warning ProvisioningFailed PersistentVolumeClaim default/c: no volume plugin matched name: \
             kubernetes.io/no-provisioner"
        )
    );
    let off = Observed { enable_dynamic_provisioning: false, ..of(gold(), disks()) };
    assert_eq!(show(&plan(&off)), "");
}

#[test]
fn a_claim_waits_for_its_first_consumer() {
    let mut late = class("late", "disks.example.com");
    late.volume_binding_mode = Some("WaitForFirstConsumer".to_owned());
    let waiting = |pods: &[&str], claim| Observed {
        class: Some(Arc::new(late.clone())),
        candidates: vec![Arc::new(volume("v", "1Gi", "late"))],
        unscheduled_pods: pods.iter().map(|pod| (*pod).to_owned()).collect(),
        ..observed(claim)
    };
    let of = |reason: &str, text: &str| format!("event Normal {reason} PersistentVolumeClaim default/c: {text}\n");
    for (pods, expected) in [
        (&[][..], of("WaitForFirstConsumer", "waiting for first consumer to be created before binding")),
        (&["web"], of("WaitForPodScheduled", "waiting for pod web to be scheduled")),
        (&["a", "b"], of("WaitForPodScheduled", "waiting for pods a,b to be scheduled")),
    ] {
        assert_eq!(show(&plan(&waiting(pods, claim("c", Some("late"))))), expected);
    }
    let mut chosen = claim("c", Some("late"));
    annotate(&mut chosen, &[(SELECTED_NODE, "node-1")]);
    assert_eq!(
        show(&plan(&waiting(&[], chosen))),
        "claim c →  class=late storage-provisioner=disks.example.com selected-node=node-1 \
         storage-provisioner=disks.example.com\n"
    );
}
