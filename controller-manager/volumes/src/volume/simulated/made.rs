//! The volume that is made for a claim.
//!
//! Corresponds to Provision in pkg/controller/controller.go of the external-provisioner.

use super::parameters::Parameters;
use super::{DRIVER, FINALIZER, PROVISIONER, zone};
use crate::volume::claims::{self, STORAGE};
use component_helpers::volumes::annotations::PROVISIONED_BY;
use component_helpers::volumes::binding;
use proto::Kind;
use proto::kinds::api::core::v1::{
    CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec,
};
use proto::kinds::api::storage::v1::StorageClass;
use proto::kinds::apimachinery::api::resource::Quantity;
use proto::kinds::metav1::ObjectMeta;
use std::collections::BTreeMap;

/// Returns the name of the volume that is made for a claim. It depends on nothing else, so that it is made once.
pub fn name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.uid())
}

pub fn volume(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    parameters: &Parameters,
    zone: Option<String>,
) -> PersistentVolume {
    let annotations = [
        (PROVISIONED_BY, PROVISIONER),
        ("volume.kubernetes.io/provisioner-deletion-secret-name", ""),
        ("volume.kubernetes.io/provisioner-deletion-secret-namespace", ""),
    ];
    let policy = class.reclaim_policy.clone().unwrap_or_else(|| "Delete".to_owned());
    let metadata = ObjectMeta {
        name: Some(name(claim)),
        annotations: Some(annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
        finalizers: (policy == "Delete").then(|| vec![FINALIZER.to_owned()]),
        ..ObjectMeta::default()
    };
    let spec = claim.spec.as_ref();
    let is_block = claims::volume_mode(claim) == "Block";
    let size = Quantity(claims::requested(claim).to_string());
    let source = CSIPersistentVolumeSource {
        driver: DRIVER.to_owned(),
        volume_handle: name(claim),
        fs_type: parameters.fs_type.clone().filter(|_| !is_block),
        volume_attributes: Some(BTreeMap::from([(
            "storage.kubernetes.io/csiProvisionerIdentity".to_owned(),
            DRIVER.to_owned(),
        )])),
        ..CSIPersistentVolumeSource::default()
    };
    let spec = PersistentVolumeSpec {
        access_modes: spec.and_then(|spec| spec.access_modes.clone()),
        volume_mode: spec.and_then(|spec| spec.volume_mode.clone()),
        volume_attributes_class_name: spec.and_then(|spec| spec.volume_attributes_class_name.clone()),
        capacity: Some(BTreeMap::from([(STORAGE.to_owned(), size)])),
        claim_ref: Some(binding::reference(claim)),
        csi: Some(source),
        mount_options: class.mount_options.clone(),
        node_affinity: zone.map(zone::affinity),
        persistent_volume_reclaim_policy: Some(policy),
        storage_class_name: Some(class.name().to_owned()),
        ..PersistentVolumeSpec::default()
    };
    PersistentVolume { metadata, spec: Some(spec), status: None }
}
