//! Builds the StatefulSets and pods of this controller's tests.
//!
//! Corresponds to newStatefulSet and newStatefulSetPod of pkg/controller/statefulset's tests.

use super::pods::{Revision, new_pod};
use controller_base::fixture;
use proto::Kind;
use proto::kinds::api::apps::v1::{
    RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec,
    StatefulSetUpdateStrategy,
};
use proto::kinds::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec, Pod};
use proto::kinds::metav1::LabelSelector;

/// Returns the set `web`, with the API server's defaults.
pub fn set(replicas: i32) -> StatefulSet {
    StatefulSet {
        metadata: fixture::meta("web"),
        spec: Some(StatefulSetSpec {
            replicas: Some(replicas),
            service_name: Some("nginx".to_owned()),
            selector: LabelSelector {
                match_labels: Some(fixture::labels(&[("app", "web")])),
                ..LabelSelector::default()
            },
            template: fixture::template("nginx:1"),
            pod_management_policy: Some("OrderedReady".to_owned()),
            revision_history_limit: Some(10),
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateStatefulSetStrategy { partition: Some(0), max_unavailable: None }),
            }),
            ..StatefulSetSpec::default()
        }),
        status: None,
    }
}

/// Returns the set `web` with claim templates of these names.
pub fn set_with_claims(replicas: i32, names: &[&str]) -> StatefulSet {
    let mut set = set(replicas);
    let template = |name: &&str| {
        let modes = Some(vec!["ReadWriteOnce".to_owned()]);
        let spec = PersistentVolumeClaimSpec { access_modes: modes, ..PersistentVolumeClaimSpec::default() };
        let mut claim = PersistentVolumeClaim { spec: Some(spec), ..PersistentVolumeClaim::default() };
        claim.metadata.name = Some((*name).to_owned());
        claim
    };
    set.spec.as_mut().unwrap().volume_claim_templates = Some(names.iter().map(template).collect());
    set
}

pub fn retaining(mut set: StatefulSet, when_scaled: &str, when_deleted: &str) -> StatefulSet {
    set.spec.as_mut().unwrap().persistent_volume_claim_retention_policy =
        Some(StatefulSetPersistentVolumeClaimRetentionPolicy {
            when_scaled: Some(when_scaled.to_owned()),
            when_deleted: Some(when_deleted.to_owned()),
        });
    set
}

pub fn parallel(mut set: StatefulSet) -> StatefulSet {
    set.spec.as_mut().unwrap().pod_management_policy = Some("Parallel".to_owned());
    set
}

pub fn rolling(set: &mut StatefulSet) -> &mut RollingUpdateStatefulSetStrategy {
    let strategy = set.spec.as_mut().unwrap().update_strategy.as_mut().unwrap();
    strategy.rolling_update.get_or_insert_default()
}

pub fn on_delete() -> StatefulSetUpdateStrategy {
    StatefulSetUpdateStrategy { type_: Some("OnDelete".to_owned()), rolling_update: None }
}

/// Returns a pod of the set in a state, written as `ordinal@revision` and a letter: `r` ready since the tests' epoch,
/// `p` pending, `b` running and not ready, `f` failed, `s` succeeded, `t` terminating, and ready until then.
pub fn pod(set: &StatefulSet, text: &str) -> Pod {
    let (ordinal, rest) = text.split_once('@').unwrap();
    let (revision, state) = rest.split_at(rest.len() - 1);
    let revision = Revision { name: revision.to_owned(), template: set.spec.clone().unwrap().template };
    let mut pod = new_pod(set, &revision, ordinal.parse().unwrap());
    pod.metadata.uid = Some(format!("uid-{}", pod.name()));
    let phase = match state {
        "p" => "Pending",
        "f" => "Failed",
        "s" => "Succeeded",
        _ => "Running",
    };
    fixture::set_phase(&mut pod, phase);
    if matches!(state, "r" | "t") {
        fixture::set_ready(&mut pod, fixture::at(0));
    }
    if state == "t" {
        pod.metadata.deletion_timestamp = Some(fixture::time(0));
    }
    pod
}
