//! `Caches`: finds the pods, nodes and attachments that a volume concerns, and the volumes that a node concerns.
//!
//! Corresponds to pkg/controller/volume/attachdetach/populator and to CreateVolumeSpec and DetermineVolumeAction in
//! pkg/controller/volume/attachdetach/util.

use super::ledger::Ledger;
use super::place::Place;
use super::{attachment, node_plan, volume_plan};
use client::Lister;
use component_base::env::Env;
use component_helpers::volumes::csi_volume::{self, CsiVolume};
use component_helpers::volumes::{persistent_volumes, pod_volumes};
use controller_base::attach_detach_options::AttachDetachOptions;
use controller_base::descriptor::Setup;
use controller_base::indexes::{self, ATTACHMENTS_BY_VOLUME, PODS_BY_CLAIM, PODS_BY_NODE};
use controller_base::pod;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use proto::kinds::api::storage::v1::{CSIDriver, VolumeAttachment};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// PersistentVolumes by the unique name of their CSI volume.
pub(super) const BY_UNIQUE_NAME: &str = "uniqueName";
/// Nodes by the unique names of the volumes that their status lists as attached.
pub(super) const BY_REPORTED: &str = "volumesAttached";
/// Attachments by the name of their node.
pub(super) const BY_NODE: &str = "node";

/// Annotation of a node that keeps the volumes of pods that have ended.
const KEEPS_TERMINATED: &str = "volumes.kubernetes.io/keep-terminated-pod-volumes";

/// The pods that use a volume, by node.
pub(super) type Users = BTreeMap<String, Vec<Arc<Pod>>>;

pub struct Caches {
    pub(super) env: Env,
    pub(super) options: AttachDetachOptions,
    pub pods: Lister<Pod>,
    pub nodes: Lister<Node>,
    pub claims: Lister<PersistentVolumeClaim>,
    pub volumes: Lister<PersistentVolume>,
    pub attachments: Lister<VolumeAttachment>,
    pub drivers: Lister<CSIDriver>,
    pub ledger: Ledger,
}

impl Caches {
    /// Creates the indexes and takes the listers.
    pub fn new(setup: &Setup<'_>) -> Self {
        indexes::pods_by_node(&setup.informer());
        indexes::pods_by_claim(&setup.informer());
        setup.informer::<PersistentVolume>().index(BY_UNIQUE_NAME, unique_names);
        setup.informer::<Node>().index(BY_REPORTED, |node| reported(node).map(str::to_owned).collect());
        let attachments = setup.informer::<VolumeAttachment>();
        attachments.index(BY_NODE, |attachment| vec![attachment.spec.node_name.clone()]);
        indexes::attachments_by_volume(&attachments);
        Self {
            env: setup.env.clone(),
            options: setup.settings.attach_detach.clone(),
            pods: setup.lister(),
            nodes: setup.lister(),
            claims: setup.lister(),
            volumes: setup.lister(),
            attachments: attachments.lister(),
            drivers: setup.lister(),
            ledger: Ledger::default(),
        }
    }

    /// Observes the volume of this name on all nodes; `None` if no PersistentVolume has it.
    pub fn volume(&self, unique_name: &str) -> Option<volume_plan::Observed> {
        let volume = CsiVolume::from_unique_name(unique_name)?;
        let (used, mut users) = self.users(&volume);
        let nodes = self.nodes_of(&volume, &users);
        self.ledger.retain(unique_name, |node| nodes.contains(node));
        let place = |node: String| self.place(&volume, &node, users.remove(&node).unwrap_or_default());
        let places = nodes.into_iter().map(place).collect();
        Some(volume_plan::Observed {
            persistent_volume: used
                .or_else(|| self.volumes.by_index(BY_UNIQUE_NAME, unique_name).into_iter().next())?,
            places,
            forces_detach: !self.options.disable_force_detach_on_timeout,
            verifies: self.options.sync_period().is_some(),
        })
    }

    /// Returns the nodes that a volume concerns: those of its attachments, those that report it, and those of its pods.
    pub fn nodes_of(&self, volume: &CsiVolume, users: &Users) -> BTreeSet<String> {
        let unique_name = volume.unique_name();
        let all = self.volumes.by_index(BY_UNIQUE_NAME, &unique_name);
        all.iter()
            .flat_map(|volume| self.attachments.by_index(ATTACHMENTS_BY_VOLUME, volume.name()))
            .map(|attachment| attachment.spec.node_name.clone())
            .chain(self.nodes.by_index(BY_REPORTED, &unique_name).iter().map(|node| node.name().to_owned()))
            .chain(users.keys().cloned())
            .collect()
    }

    /// Observes a node with its volumes; `None` if it is gone.
    pub fn node(&self, name: &str) -> Option<node_plan::Observed> {
        let node = self.nodes.get("", name)?;
        let mut volumes: BTreeMap<CsiVolume, String> =
            reported(&node).filter_map(CsiVolume::from_unique_name).map(|volume| (volume, String::new())).collect();
        for attachment in self.attachments.by_index(BY_NODE, name) {
            if let Some(volume) = self.volume_of(&attachment) {
                let persistent_volume = attachment::persistent_volume(&attachment).unwrap_or_default();
                volumes.insert(volume, persistent_volume.to_owned());
            }
        }
        let place = |(volume, persistent_volume): (CsiVolume, String)| {
            let pods = self.users(&volume).1.remove(name).unwrap_or_default();
            (persistent_volume, self.place(&volume, name, pods))
        };
        Some(node_plan::Observed {
            node,
            volumes: volumes.into_iter().map(place).collect(),
            forces_detach: !self.options.disable_force_detach_on_timeout,
            verifies: self.options.sync_period().is_some(),
        })
    }

    fn place(&self, volume: &CsiVolume, node: &str, pods: Vec<Arc<Pod>>) -> Place {
        let attachment = self.attachments.get("", &attachment::name(volume, node));
        let is_attached = attachment.as_deref().is_some_and(attachment::is_attached);
        let key = volume.unique_name();
        let (unwanted_since, reports) =
            self.ledger.observe((&key, node), !pods.is_empty(), is_attached, self.env.wall());
        Place {
            volume: volume.clone(),
            node_name: node.to_owned(),
            node: self.nodes.get("", node),
            pods,
            attachment,
            unwanted_since,
            reports,
        }
    }

    /// Returns the CSI volume of an attachment; `None` if its PersistentVolume is gone.
    pub fn volume_of(&self, attachment: &VolumeAttachment) -> Option<CsiVolume> {
        CsiVolume::of(&*self.volumes.get("", attachment::persistent_volume(attachment)?)?)
    }

    /// Returns the CSI volumes that the claims of a pod are bound to, as far as the caches know them.
    pub fn volumes_of_pod(&self, pod: &Pod) -> Vec<CsiVolume> {
        let volume = |key: String| CsiVolume::of(&*self.volume_of_claim(&*self.claims.by_key(&key)?)?);
        pod_volumes::claim_keys(pod).into_iter().filter_map(volume).collect()
    }

    /// Returns the PersistentVolume that a claim names.
    pub fn volume_of_claim(&self, claim: &PersistentVolumeClaim) -> Option<Arc<PersistentVolume>> {
        self.volumes.get("", claim.spec.as_ref()?.volume_name.as_deref()?)
    }

    /// Returns the CSI volumes that may concern a node: those of its attachments, of its status and of its pods.
    pub fn volumes_of_node(&self, node: &Node) -> BTreeSet<CsiVolume> {
        let attachments = self.attachments.by_index(BY_NODE, node.name());
        let pods = self.pods.by_index(PODS_BY_NODE, node.name());
        let of_attachments = attachments.iter().filter_map(|attachment| self.volume_of(attachment));
        let of_status = reported(node).filter_map(CsiVolume::from_unique_name);
        of_attachments.chain(of_status).chain(pods.iter().flat_map(|pod| self.volumes_of_pod(pod))).collect()
    }

    /// Returns the pods that use a volume, by node, and the PersistentVolume by which they do.
    pub fn users(&self, volume: &CsiVolume) -> (Option<Arc<PersistentVolume>>, Users) {
        let (mut used, mut users) = (None, Users::new());
        if !csi_volume::is_attach_required(self.drivers.get("", &volume.driver).as_deref()) {
            return (used, users);
        }
        for persistent_volume in self.volumes.by_index(BY_UNIQUE_NAME, &volume.unique_name()) {
            let Some(claim) = self.bound_claim(&persistent_volume) else { continue };
            for pod in self.pods.by_index(PODS_BY_CLAIM, &claim.key()) {
                if self.uses(&pod, &claim) {
                    used.get_or_insert(persistent_volume.clone());
                    users.entry(pod::node_name(&pod).to_owned()).or_default().push(pod);
                }
            }
        }
        users.values_mut().for_each(|pods| pods.sort_by_key(|pod| pod.key()));
        (used, users)
    }

    /// Returns the claim that is bound to the volume, on both sides.
    fn bound_claim(&self, volume: &PersistentVolume) -> Option<Arc<PersistentVolumeClaim>> {
        let claim = self.claims.by_key(&persistent_volumes::claim_key(volume)?)?;
        let reference = volume.spec.as_ref()?.claim_ref.as_ref()?;
        let is_bound = claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
            && claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()) == Some(volume.name())
            && reference.uid.as_deref() == Some(claim.uid());
        is_bound.then_some(claim)
    }

    /// Returns true if a pod that is bound to a node may use the claim there.
    fn uses(&self, pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
        let node = pod::node_name(pod);
        !node.is_empty()
            && pod_volumes::volume_of(pod, claim).is_some()
            && (!is_terminated(pod) || self.keeps_terminated(node))
    }

    fn keeps_terminated(&self, node: &str) -> bool {
        let node = self.nodes.get("", node);
        let annotations = node.as_ref().and_then(|node| node.metadata.annotations.as_ref());
        annotations.and_then(|annotations| annotations.get(KEEPS_TERMINATED)).is_some_and(|value| value == "true")
    }
}

pub(super) fn unique_names(volume: &PersistentVolume) -> Vec<String> {
    CsiVolume::of(volume).map(|volume| volume.unique_name()).into_iter().collect()
}

/// Returns the unique names of the volumes that a node's status lists as attached.
pub fn reported(node: &Node) -> impl Iterator<Item = &str> {
    let attached = node.status.iter().flat_map(|status| status.volumes_attached.iter().flatten());
    attached.map(|volume| volume.name.as_str())
}

/// Returns true if no container of the pod runs or will run again.
pub fn is_terminated(pod: &Pod) -> bool {
    let mut containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let runs = containers.any(|container| {
        container.state.as_ref().is_none_or(|state| state.terminated.is_none() && state.waiting.is_none())
    });
    pod::is_terminal(pod) || (pod.is_deleting() && !runs)
}
