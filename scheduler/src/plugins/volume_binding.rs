//! VolumeBinding rejects pods with unbound claims, and nodes that cannot access the volumes of the claims.
//!
//! Corresponds to pkg/scheduler/framework/plugins/volumebinding.
//!
//! Deviation: a claim of a class with `volumeBindingMode: WaitForFirstConsumer` is bound by kube-scheduler when it
//! has chosen the node; ours does not choose volumes, so such a pod waits until another component has bound the claim.

use crate::cache::{NodeInfo, Snapshot};
use crate::framework::{ClusterEvent, CycleState, Filter, Plugin, PreFilter, PreFilterResult, Rejection};
use crate::pod_info::PodInfo;
use client::Lister;
use proto::Kind;
use proto::kinds::api::core::v1::{NodeSelector, PersistentVolume, PersistentVolumeClaim};
use proto::kinds::api::storage::v1::StorageClass;
use proto::scheduling::node_selector;

pub struct VolumeBinding {
    pub claims: Lister<PersistentVolumeClaim>,
    pub volumes: Lister<PersistentVolume>,
    pub classes: Lister<StorageClass>,
}

const NAME: &str = "VolumeBinding";
const CONFLICT: &str = "node(s) didn't match PersistentVolume's node affinity";

/// The required node affinity of the pod's volumes.
#[derive(Clone)]
struct Required(Vec<NodeSelector>);

impl VolumeBinding {
    /// Returns the names of the pod's claims. A claim of a generic ephemeral volume has a name that begins with the
    /// pod's.
    fn claim_names(pod: &PodInfo) -> Vec<String> {
        let volumes = pod.spec().volumes.iter().flatten();
        volumes
            .filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
                (Some(source), _) => Some(source.claim_name.clone()),
                (None, Some(_)) => Some(format!("{}-{}", pod.pod.name(), volume.name)),
                (None, None) => None,
            })
            .collect()
    }

    fn waits_for_first_consumer(&self, claim: &PersistentVolumeClaim) -> bool {
        let class = claim.spec.as_ref().and_then(|s| s.storage_class_name.as_deref()).unwrap_or_default();
        let class = self.classes.get("", class);
        class.is_some_and(|class| class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"))
    }

    fn required_by(&self, pod: &PodInfo, claim_name: &str) -> Result<Option<NodeSelector>, Rejection> {
        let reject = |reason: String| Rejection::unresolvable(NAME, reason);
        let Some(claim) = self.claims.get(pod.namespace(), claim_name) else {
            return Err(reject(format!("persistentvolumeclaim {claim_name:?} not found")));
        };
        if claim.is_deleting() {
            return Err(reject(format!("persistentvolumeclaim {claim_name:?} is being deleted")));
        }
        let volume_name = claim.spec.as_ref().and_then(|s| s.volume_name.as_deref()).unwrap_or_default();
        let completed =
            claim.metadata.annotations.as_ref().is_some_and(|a| a.contains_key("pv.kubernetes.io/bind-completed"));
        if volume_name.is_empty() || !completed {
            return Err(match self.waits_for_first_consumer(&claim) {
                true => reject(format!(
                    "persistentvolumeclaim {claim_name:?} waits for its first consumer, and this scheduler does not bind volumes"
                )),
                false => reject("pod has unbound immediate PersistentVolumeClaims".to_owned()),
            });
        }
        let Some(volume) = self.volumes.get("", volume_name) else {
            return Err(reject(format!("persistentvolume {volume_name:?} not found")));
        };
        let affinity = volume.spec.as_ref().and_then(|s| s.node_affinity.as_ref());
        Ok(affinity.and_then(|a| a.required.clone()))
    }
}

impl Plugin for VolumeBinding {
    fn name(&self) -> &'static str {
        NAME
    }

    fn may_become_schedulable(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        match event {
            ClusterEvent::ClaimChanged(claim) => {
                claim.namespace() == pod.namespace() && Self::claim_names(pod).iter().any(|name| name == claim.name())
            }
            ClusterEvent::VolumesChanged | ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::NodeUpdated { old, new } => old.metadata.labels != new.metadata.labels,
            _ => false,
        }
    }
}

impl PreFilter for VolumeBinding {
    fn pre_filter(&self, state: &mut CycleState, pod: &PodInfo, _: &Snapshot) -> Result<PreFilterResult, Rejection> {
        let mut required = Vec::new();
        for claim in Self::claim_names(pod) {
            required.extend(self.required_by(pod, &claim)?);
        }
        if required.is_empty() {
            return Ok(PreFilterResult::Skip);
        }
        state.write(NAME, Required(required));
        Ok(PreFilterResult::AllNodes)
    }
}

impl Filter for VolumeBinding {
    fn filter(&self, state: &CycleState, _pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        let (Some(Required(required)), Some(node)) = (state.read::<Required>(NAME), &node.node) else { return Ok(()) };
        let reachable = required.iter().all(|selector| node_selector::selector_matches(selector, node));
        if reachable { Ok(()) } else { Err(Rejection::unresolvable(NAME, CONFLICT)) }
    }
}
