//! VolumeBinding chooses the volumes of a pod's claims together with its node.
//!
//! A claim of a class with `volumeBindingMode: WaitForFirstConsumer` has no volume before its pod has a node. The filter
//! (`node_volumes`) asks for each node whether a volume is there, or can be made there. Reserve keeps the choice (`assumed`),
//! and PreBind (`bind`) writes it and waits until the controllers have bound the claims. What a pod's claims need is read once
//! a cycle (`pod_claims`).
//! Corresponds to pkg/scheduler/framework/plugins/volumebinding.

mod assumed;
mod bind;
mod node_volumes;
mod pod_claims;
#[cfg(test)]
mod tests;

use crate::cache::{NodeInfo, Snapshot};
use crate::framework::{
    ClusterEvent, CycleState, Filter, Plugin, PreBind, PreBindPreFlight, PreFilter, PreFilterResult, Rejection, Reserve,
};
use crate::pod_info::PodInfo;
use assumed::Assumed;
use async_trait::async_trait;
use client::{Client, Informer, Informers, Lister};
use component_base::env::Env;
use component_helpers::volumes::persistent_volumes;
use node_volumes::NodeVolumes;
use pod_claims::PodClaims;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use proto::kinds::api::storage::v1::{CSIDriver, CSIStorageCapacity, StorageClass};
use std::sync::Arc;

const NAME: &str = "VolumeBinding";
/// Key of the chosen volumes in the cycle's state; that of the pod's claims is the plugin's name.
const CHOSEN: &str = "VolumeBinding/chosen";
/// Volumes by their class.
const BY_CLASS: &str = "storageClassName";

/// The caches that the plugin reads, and what it has assumed beyond them.
pub struct Sources {
    pub pods: Lister<Pod>,
    pub nodes: Lister<Node>,
    pub claims: Lister<PersistentVolumeClaim>,
    pub volumes: Lister<PersistentVolume>,
    pub classes: Lister<StorageClass>,
    pub drivers: Lister<CSIDriver>,
    pub capacities: Lister<CSIStorageCapacity>,
    pub(crate) assumed: Assumed,
}

impl Sources {
    pub fn new(informers: &Informers, pods: Lister<Pod>) -> Self {
        let volumes: Informer<PersistentVolume> = informers.of();
        volumes.index(BY_CLASS, by_class);
        Self {
            pods,
            nodes: informers.of().lister(),
            claims: informers.of().lister(),
            volumes: volumes.lister(),
            classes: informers.of().lister(),
            drivers: informers.of().lister(),
            capacities: informers.of().lister(),
            assumed: Assumed::default(),
        }
    }

    fn claim(&self, namespace: &str, name: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.claims.get(namespace, name).map(|claim| self.assumed.claim(claim))
    }

    fn volumes_of_class(&self, class: &str) -> Vec<Arc<PersistentVolume>> {
        let cached = self.volumes.by_index(BY_CLASS, class);
        cached.into_iter().map(|volume| self.assumed.volume(volume)).collect()
    }

    /// Returns where the class's driver can make volumes; `None` if the driver does not publish that.
    fn capacities_of(&self, class: &StorageClass) -> Option<Vec<Arc<CSIStorageCapacity>>> {
        let driver = self.drivers.get("", &class.provisioner)?;
        driver.spec.storage_capacity.filter(|publishes| *publishes)?;
        Some(self.capacities.filter("", |capacity| capacity.storage_class_name == class.name()))
    }
}

fn by_class(volume: &PersistentVolume) -> Vec<String> {
    vec![persistent_volumes::class(volume).to_owned()]
}

pub struct VolumeBinding {
    pub sources: Sources,
    /// Writes the choices; `None` where nothing is bound.
    pub writer: Option<(Client, Env)>,
}

impl Plugin for VolumeBinding {
    fn name(&self) -> &'static str {
        NAME
    }

    fn may_become_schedulable(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        match event {
            ClusterEvent::ClaimChanged(claim) => {
                claim.namespace() == pod.namespace()
                    && pod_claims::names(pod).iter().any(|(name, _)| name == claim.name())
            }
            ClusterEvent::VolumesChanged | ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::NodeUpdated { old, new } => old.metadata.labels != new.metadata.labels,
            _ => false,
        }
    }
}

impl PreFilter for VolumeBinding {
    fn pre_filter(&self, state: &mut CycleState, pod: &PodInfo, _: &Snapshot) -> Result<PreFilterResult, Rejection> {
        if pod_claims::names(pod).is_empty() {
            return Ok(PreFilterResult::Skip);
        }
        state.write(NAME, pod_claims::read(&self.sources, pod)?);
        Ok(PreFilterResult::AllNodes)
    }
}

impl Filter for VolumeBinding {
    fn filter(&self, state: &CycleState, _pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        let (Some(wanted), Some(node)) = (state.read::<PodClaims>(NAME), &node.node) else { return Ok(()) };
        node_volumes::find(wanted, node).map(drop).map_err(rejection)
    }
}

impl Reserve for VolumeBinding {
    /// Keeps the choice for the node, so that no other pod takes the same volumes.
    fn reserve(&self, state: &mut CycleState, pod: &PodInfo, node: &str) -> Result<(), Rejection> {
        let Some(wanted) = state.read::<PodClaims>(NAME) else { return Ok(()) };
        let Some(present) = self.sources.nodes.get("", node) else { return Ok(()) };
        let chosen = node_volumes::find(wanted, &present).map_err(rejection)?;
        self.sources.assumed.assume(pod.uid(), node, &chosen);
        state.write(CHOSEN, chosen);
        Ok(())
    }

    fn unreserve(&self, _state: &CycleState, pod: &PodInfo, _node: &str) {
        self.sources.assumed.release(pod.uid());
    }
}

#[async_trait]
impl PreBind for VolumeBinding {
    fn pre_bind_pre_flight(&self, state: &CycleState, _pod: &PodInfo, _node: &str) -> PreBindPreFlight {
        match state.read::<NodeVolumes>(CHOSEN) {
            Some(chosen) if !chosen.is_empty() => PreBindPreFlight::Run,
            _ => PreBindPreFlight::Skip,
        }
    }

    async fn pre_bind(&self, state: &CycleState, pod: &PodInfo, node: &str) -> Result<(), String> {
        let (Some(chosen), Some((client, env))) = (state.read::<NodeVolumes>(CHOSEN), &self.writer) else {
            return Ok(());
        };
        bind::bind(client, env, &self.sources, pod, node, chosen).await?;
        self.sources.assumed.release(pod.uid());
        Ok(())
    }
}

fn rejection(reasons: Vec<&'static str>) -> Rejection {
    let reasons = reasons.into_iter().map(Into::into).collect();
    Rejection { plugin: NAME, resolvable: false, reasons }
}
