//! The claims that a pod uses, by name or as generic ephemeral volumes.
//!
//! Corresponds to PodPVCIndexFunc in pkg/controller/volume/common and to k8s.io/component-helpers/storage/ephemeral.

use client::{Informer, cached};
use controller_base::controller_ref::is_controlled_by;
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolumeClaim, Pod, Volume};

/// Pods by the keys of the claims that they name.
pub const PODS_BY_CLAIM: &str = "pod-pvc-index";

/// Returns the volumes of the pod.
pub fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten())
}

/// Returns the name of the claim that is made for an ephemeral volume of the pod.
pub fn ephemeral_claim_name(pod: &Pod, volume: &Volume) -> String {
    format!("{}-{}", pod.name(), volume.name)
}

/// Returns the name of the claim behind a volume of the pod; `None` if the volume has none.
fn claim_name(pod: &Pod, volume: &Volume) -> Option<String> {
    match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(source), _) => Some(source.claim_name.clone()),
        (None, Some(_)) => Some(ephemeral_claim_name(pod, volume)),
        (None, None) => None,
    }
}

/// Returns the keys of the claims that the pod names.
pub fn claim_keys(pod: &Pod) -> Vec<String> {
    volumes(pod).filter_map(|volume| claim_name(pod, volume)).map(|name| cached::key(pod.namespace(), &name)).collect()
}

/// Returns the volume of the pod that names the claim. An ephemeral volume names only the claim that the pod controls.
pub fn volume_of<'a>(pod: &'a Pod, claim: &PersistentVolumeClaim) -> Option<&'a Volume> {
    volumes(pod).filter(|_| pod.namespace() == claim.namespace()).find(|volume| {
        let is_named = claim_name(pod, volume).is_some_and(|name| name == claim.name());
        is_named && (volume.ephemeral.is_none() || is_controlled_by(claim, pod.uid()))
    })
}

pub fn index(pods: &Informer<Pod>) {
    pods.index(PODS_BY_CLAIM, claim_keys);
}
