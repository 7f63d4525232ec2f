//! Builds the claims, volumes and classes that tests of storage use.
//!
//! Corresponds to framework_test.go of pkg/controller/volume/persistentvolume.

use super::claims::{self, STORAGE};
use super::volumes;
use client::{Action, Plan};
use component_helpers::volumes::annotations::{BIND_COMPLETED, BOUND_BY_CONTROLLER, YES};
use controller_base::fixture;
use proto::Kind;
use proto::kinds::api::core::v1::{
    CSIPersistentVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus, PersistentVolumeSpec, PersistentVolumeStatus, VolumeResourceRequirements,
};
use proto::kinds::api::storage::v1::StorageClass;
use proto::kinds::apimachinery::api::resource::Quantity;
use std::collections::BTreeMap;

pub fn size(text: &str) -> BTreeMap<String, Quantity> {
    BTreeMap::from([(STORAGE.to_owned(), Quantity(text.to_owned()))])
}

/// Returns a pending claim of 1 GiB in `default`, of the class `gold` if not empty.
pub fn claim(name: &str, class: Option<&str>) -> PersistentVolumeClaim {
    let resources = VolumeResourceRequirements { requests: Some(size("1Gi")), limits: None };
    PersistentVolumeClaim {
        metadata: fixture::meta(name),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            resources: Some(resources),
            storage_class_name: class.map(str::to_owned),
            volume_mode: Some("Filesystem".to_owned()),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: Some(PersistentVolumeClaimStatus {
            phase: Some("Pending".to_owned()),
            ..PersistentVolumeClaimStatus::default()
        }),
    }
}

/// Returns a retained volume of this size with the access mode ReadWriteOnce.
pub fn volume(name: &str, capacity: &str, class: &str) -> PersistentVolume {
    let mut metadata = fixture::meta(name);
    metadata.namespace = None;
    PersistentVolume {
        metadata,
        spec: Some(PersistentVolumeSpec {
            access_modes: Some(vec!["ReadWriteOnce".to_owned()]),
            capacity: Some(size(capacity)),
            storage_class_name: Some(class.to_owned()),
            persistent_volume_reclaim_policy: Some("Retain".to_owned()),
            csi: Some(CSIPersistentVolumeSource {
                driver: "disks.example.com".to_owned(),
                volume_handle: name.to_owned(),
                ..CSIPersistentVolumeSource::default()
            }),
            ..PersistentVolumeSpec::default()
        }),
        status: Some(PersistentVolumeStatus {
            phase: Some("Available".to_owned()),
            ..PersistentVolumeStatus::default()
        }),
    }
}

/// Returns a class of this provisioner that binds at once.
pub fn class(name: &str, provisioner: &str) -> StorageClass {
    let mut metadata = fixture::meta(name);
    metadata.namespace = None;
    StorageClass {
        metadata,
        provisioner: provisioner.to_owned(),
        reclaim_policy: Some("Delete".to_owned()),
        volume_binding_mode: Some("Immediate".to_owned()),
        ..StorageClass::default()
    }
}

/// Makes the volume refer to the claim `name` in `default`; an empty uid only reserves it.
pub fn refer(mut volume: PersistentVolume, name: &str, uid: &str) -> PersistentVolume {
    let reference = ObjectReference {
        namespace: Some("default".to_owned()),
        name: Some(name.to_owned()),
        uid: (!uid.is_empty()).then(|| uid.to_owned()),
        ..ObjectReference::default()
    };
    volume.spec.get_or_insert_default().claim_ref = Some(reference);
    volume
}

pub fn in_phase(mut volume: PersistentVolume, phase: &str) -> PersistentVolume {
    volume.status.get_or_insert_default().phase = Some(phase.to_owned());
    volume
}

/// Makes the claim name a volume, as a user does.
pub fn naming(mut claim: PersistentVolumeClaim, volume: &str) -> PersistentVolumeClaim {
    claim.spec.get_or_insert_default().volume_name = Some(volume.to_owned());
    claim
}

/// Makes the claim name a volume, as the binder does.
pub fn completed(claim: PersistentVolumeClaim, volume: &str) -> PersistentVolumeClaim {
    let mut claim = naming(claim, volume);
    fixture::annotate(&mut claim, &[(BIND_COMPLETED, YES), (BOUND_BY_CONTROLLER, YES)]);
    claim
}

/// Prints a plan with the fields that binding changes.
pub fn show(plan: &Plan) -> String {
    let line = |action: &Action| match action {
        Action::Update { gvr, object, .. } if *gvr == PersistentVolume::gvr() => {
            let volume = PersistentVolume::decode_value(object.clone()).unwrap();
            let reference = volumes::claim_key(&volume).map(|key| format!("{key} {}", volumes::claim_uid(&volume)));
            format!("volume {} → {}{}", volume.name(), reference.unwrap_or_default(), marks(&volume))
        }
        Action::Update { gvr, object, .. } if *gvr == PersistentVolumeClaim::gvr() => {
            let claim = PersistentVolumeClaim::decode_value(object.clone()).unwrap();
            let (volume, class) = (claims::volume_name(&claim), claims::class(&claim));
            format!("claim {} → {volume} class={class}{}", claim.name(), marks(&claim))
        }
        other => other.to_string(),
    };
    plan.actions.iter().map(|action| line(action).trim_end().to_owned() + "\n").collect()
}

fn marks<K: Kind>(object: &K) -> String {
    let marks = object.metadata().annotations.iter().flatten();
    marks.map(|(key, value)| format!(" {}={value}", key.rsplit('/').next().unwrap_or_default())).collect()
}
