//! Keeps the mirror pod of a static pod: the API server's picture of it.
//!
//! Corresponds to pkg/kubelet/pod/mirror_client.go and to syncPod as far as mirror pods go.

use crate::fleet::kubelet::SimulatedKubelet;
use crate::static_pods::manifest::{HASH, MIRROR};
use client::{DeleteOptions, Error, Patch, PatchOptions};
use pod_life::patch::status_patch;
use proto::Kind;
use proto::kinds::api::core::v1::{Pod, PodStatus};
use proto::kinds::metav1::OwnerReference;
use serde_json::Value;

/// True for the picture of a static pod.
pub fn is_mirror(pod: &Pod) -> bool {
    annotation(pod, MIRROR).is_some()
}

fn annotation<'a>(pod: &'a Pod, key: &str) -> Option<&'a String> {
    pod.metadata.annotations.as_ref()?.get(key)
}

/// Brings the mirror pod in line with the static pod. `stored` is the pod of that name that the cache has.
pub async fn reconcile(
    kubelet: &SimulatedKubelet,
    pod: &Pod,
    status: &PodStatus,
    stored: Option<&Pod>,
) -> Result<(), Error> {
    let hash = annotation(pod, HASH);
    let fits = |stored: &Pod| !stored.is_deleting() && annotation(stored, MIRROR) == hash;
    match stored {
        Some(stored) if fits(stored) => return write_status(kubelet, stored, status).await,
        Some(other) => return delete(kubelet, other).await,
        None if pod.is_deleting() => return Ok(()),
        None => {}
    }
    let mut mirror = pod.clone();
    let metadata = &mut mirror.metadata;
    metadata.uid = None;
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.extend(hash.map(|hash| (MIRROR.to_owned(), hash.clone())));
    metadata.owner_references = Some(vec![OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: kubelet.machine.name.clone(),
        uid: kubelet.node_uid(),
        controller: Some(true),
        block_owner_deletion: None,
    }]);
    mirror.status = None;
    match kubelet.client.api::<Pod>(mirror.namespace()).create(&mirror).await {
        Ok(created) => write_status(kubelet, &created, status).await,
        // The cache will show what is there.
        Err(error) if error.is_already_exists() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Deletes a mirror pod without grace: nothing runs in it.
pub async fn delete(kubelet: &SimulatedKubelet, mirror: &Pod) -> Result<(), Error> {
    let options = DeleteOptions { grace_period_s: Some(0), ..DeleteOptions::with_uid(mirror.uid()) };
    match kubelet.client.api::<Pod>(mirror.namespace()).delete(mirror.name(), &options).await {
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        other => other,
    }
}

async fn write_status(kubelet: &SimulatedKubelet, mirror: &Pod, status: &PodStatus) -> Result<(), Error> {
    let json = |status: &PodStatus| serde_json::to_value(status).unwrap_or(Value::Null);
    let mut wanted = status.clone();
    let stored = mirror.status.clone().unwrap_or_default();
    // The API server derives these from the mirror's spec.
    wanted.qos_class = stored.qos_class.clone();
    wanted.observed_generation = stored.observed_generation;
    if wanted == PodStatus::default() {
        return Ok(());
    }
    let Some(patch) = status_patch(mirror.uid(), &json(&stored), &json(&wanted)) else { return Ok(()) };
    let pods = kubelet.client.api::<Pod>(mirror.namespace());
    match pods.patch_status(mirror.name(), &Patch::Strategic(patch), &PatchOptions::default()).await {
        Err(error) if error.is_not_found() || error.is_conflict() => Ok(()),
        other => other.map(drop),
    }
}
