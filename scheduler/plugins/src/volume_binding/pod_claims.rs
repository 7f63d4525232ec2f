//! `PodClaims`: what the claims of a pod need, as the PreFilter reads it from the caches.
//!
//! Corresponds to podHasPVCs in pkg/scheduler/framework/plugins/volumebinding/volume_binding.go, and to GetPodVolumeClaims in
//! its binder.go.

use super::{NAME, Sources};
use component_helpers::volumes::claims;
use component_helpers::volumes::pod_volumes::{self, ClaimVolume};
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use proto::kinds::api::storage::v1::{CSIStorageCapacity, StorageClass};
use scheduling_framework::Rejection;
use scheduling_framework::pod_info::PodInfo;
use std::sync::Arc;

/// Phase of a claim whose volume is gone.
const LOST: &str = "Lost";

#[derive(Clone, Debug, Default)]
pub struct PodClaims {
    /// The volumes of claims that are bound.
    pub bound: Vec<Arc<PersistentVolume>>,
    /// Claims that get their volume when the pod has a node, those of the smallest size first.
    pub waiting: Vec<WaitingClaim>,
}

impl PodClaims {
    /// Returns true if the claims are bound, and every node can reach their volumes.
    pub fn fits_everywhere(&self) -> bool {
        let affinity = |volume: &PersistentVolume| volume.spec.as_ref()?.node_affinity.as_ref()?.required.clone();
        self.waiting.is_empty() && self.bound.iter().all(|volume| affinity(volume).is_none())
    }
}

/// A claim that waits for its first consumer.
#[derive(Clone, Debug)]
pub struct WaitingClaim {
    pub claim: Arc<PersistentVolumeClaim>,
    pub class: Arc<StorageClass>,
    /// The volumes of its class. Those that are assumed for a claim refer to it already.
    pub volumes: Vec<Arc<PersistentVolume>>,
    /// Where the class's driver can still make volumes; `None` if the driver does not say so.
    pub capacities: Option<Vec<Arc<CSIStorageCapacity>>>,
}

/// Reads the claims of a pod.
pub fn read(sources: &Sources, pod: &PodInfo) -> Result<PodClaims, Rejection> {
    let mut found = PodClaims::default();
    let mut has_immediate = false;
    for needed in pod_volumes::with_claims(&pod.pod) {
        let claim = present(sources, pod, &needed)?;
        let volume = claims::volume_name(&claim);
        let class = sources.storage.classes.get("", claims::class(&claim));
        if !volume.is_empty() && claims::is_bind_completed(&claim) {
            let volume = sources.storage.volume(volume);
            found.bound.push(volume.ok_or_else(|| {
                unresolvable(format!("persistentvolume {:?} not found", claims::volume_name(&claim)))
            })?);
        } else if let Some(class) = class.filter(|class| claims::waits_for_consumer(Some(class)) && volume.is_empty()) {
            let volumes = sources.volumes_of_class(class.name());
            let capacities = sources.storage.capacities_of(&class);
            found.waiting.push(WaitingClaim { claim, class, volumes, capacities });
        } else {
            has_immediate = true;
        }
    }
    if has_immediate {
        return Err(unresolvable("pod has unbound immediate PersistentVolumeClaims".to_owned()));
    }
    found.waiting.sort_by_key(|waiting| claims::requested(&waiting.claim));
    Ok(found)
}

/// Returns a claim that the pod may use.
fn present(
    sources: &Sources,
    pod: &PodInfo,
    needed: &ClaimVolume<'_>,
) -> Result<Arc<PersistentVolumeClaim>, Rejection> {
    let (name, is_ephemeral) = (&needed.claim, needed.is_ephemeral);
    let Some(claim) = sources.claim(pod.namespace(), name) else {
        return Err(unresolvable(match is_ephemeral {
            true => format!("waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}"),
            false => format!("persistentvolumeclaim {name:?} not found"),
        }));
    };
    if claims::phase(&claim) == LOST {
        let volume = claims::volume_name(&claim);
        return Err(unresolvable(format!(
            "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
        )));
    }
    if claim.is_deleting() {
        return Err(unresolvable(format!("persistentvolumeclaim {name:?} is being deleted")));
    }
    if is_ephemeral && !pod_volumes::is_made_for(&claim, &pod.pod) {
        return Err(unresolvable(format!(
            "PVC {} was not created for pod {} (pod is not owner)",
            claim.key(),
            pod.key
        )));
    }
    Ok(claim)
}

fn unresolvable(reason: String) -> Rejection {
    Rejection::unresolvable(NAME, reason)
}
