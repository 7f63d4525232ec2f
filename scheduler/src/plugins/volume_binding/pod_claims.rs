//! `PodClaims`: what the claims of a pod need, as the PreFilter reads it from the caches.
//!
//! Corresponds to podHasPVCs in pkg/scheduler/framework/plugins/volumebinding/volume_binding.go, and to GetPodVolumeClaims in
//! its binder.go.

use super::{NAME, Sources};
use crate::framework::Rejection;
use crate::pod_info::PodInfo;
use component_helpers::volumes::claims;
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use proto::kinds::api::storage::v1::{CSIStorageCapacity, StorageClass};
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

/// Returns the names of the pod's claims, with the mark of those that are made for the pod. Such a claim has a name that
/// begins with the pod's.
pub fn names(pod: &PodInfo) -> Vec<(String, bool)> {
    let volumes = pod.spec().volumes.iter().flatten();
    volumes
        .filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(source), _) => Some((source.claim_name.clone(), false)),
            (None, Some(_)) => Some((format!("{}-{}", pod.pod.name(), volume.name), true)),
            (None, None) => None,
        })
        .collect()
}

/// Reads the claims of a pod.
pub fn read(sources: &Sources, pod: &PodInfo) -> Result<PodClaims, Rejection> {
    let mut found = PodClaims::default();
    let mut has_immediate = false;
    for (name, is_ephemeral) in names(pod) {
        let claim = present(sources, pod, &name, is_ephemeral)?;
        let volume = claims::volume_name(&claim);
        let class = sources.classes.get("", claims::class(&claim));
        if !volume.is_empty() && claims::is_bind_completed(&claim) {
            let volume = sources.volumes.get("", volume);
            found.bound.push(volume.ok_or_else(|| {
                unresolvable(format!("persistentvolume {:?} not found", claims::volume_name(&claim)))
            })?);
        } else if let Some(class) = class.filter(|class| claims::waits_for_consumer(Some(class)) && volume.is_empty()) {
            let volumes = sources.volumes_of_class(class.name());
            let capacities = sources.capacities_of(&class);
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
    name: &str,
    is_ephemeral: bool,
) -> Result<Arc<PersistentVolumeClaim>, Rejection> {
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
    if is_ephemeral && !is_made_for(&claim, &pod.pod) {
        return Err(unresolvable(format!(
            "PVC {} was not created for pod {} (pod is not owner)",
            claim.key(),
            pod.key
        )));
    }
    Ok(claim)
}

fn is_made_for(claim: &PersistentVolumeClaim, pod: &Pod) -> bool {
    let mut owners = claim.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && owner.uid == pod.uid())
}

fn unresolvable(reason: String) -> Rejection {
    Rejection::unresolvable(NAME, reason)
}
