//! `Storage`: the caches of volumes and of all that describes them, which the volume plugins share, and the events that they
//! wait for.

use client::{Event, Informer, Informers, Lister};
use component_helpers::volumes::{persistent_volumes, pod_volumes};
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use proto::kinds::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment};
use scheduling_framework::ClusterEvent;
use scheduling_framework::pod_info::PodInfo;
use std::sync::Arc;

/// Volumes by their class.
const BY_CLASS: &str = "storageClassName";
/// Attachments by the node that they are for.
const BY_NODE: &str = "nodeName";

/// A change of the caches.
pub enum Change<'a> {
    /// Of a claim, by its namespace and name.
    Claim(&'a str),
    /// Of a volume.
    Volume(&'a str),
    /// Of some class.
    Class,
    /// Of the CSINode of a node, or of what is attached to it.
    OfNode(&'a str),
}

type Listener = Box<dyn Fn(&Change<'_>) + Send + Sync>;

/// Those who keep something that they have read from the caches.
#[derive(Clone, Default)]
pub struct Listeners(Arc<Mutex<Vec<Listener>>>);

impl Listeners {
    fn tell(&self, change: &Change<'_>) {
        self.0.lock().iter().for_each(|listener| listener(change));
    }

    /// Tells of each change of an object, in its old and in its new state.
    fn follow<T: Kind>(&self, informer: &Informer<T>, name: fn(&T, &dyn Fn(&Change<'_>))) {
        let listeners = self.clone();
        informer.on_event(move |event| {
            let tell = |change: &Change<'_>| listeners.tell(change);
            if let Event::Updated { old, .. } = event {
                name(old, &tell);
            }
            name(event.object(), &tell);
        });
    }
}

/// Clones share the caches.
#[derive(Clone)]
pub struct Storage {
    pub claims: Lister<PersistentVolumeClaim>,
    pub classes: Lister<StorageClass>,
    pub drivers: Lister<CSIDriver>,
    pub capacities: Lister<CSIStorageCapacity>,
    pub csi_nodes: Lister<CSINode>,
    /// With the index `BY_CLASS`.
    pub volumes: Lister<PersistentVolume>,
    /// With the index `BY_NODE`.
    pub attachments: Lister<VolumeAttachment>,
    pub listeners: Listeners,
}

impl Storage {
    pub fn new(informers: &Informers) -> Self {
        let volumes: Informer<PersistentVolume> = informers.of();
        volumes.index(BY_CLASS, by_class);
        let attachments: Informer<VolumeAttachment> = informers.of();
        attachments.index(BY_NODE, by_node);
        let (claims, classes, csi_nodes) = (informers.of(), informers.of(), informers.of());
        let listeners = Listeners::default();
        listeners.follow(&claims, |claim: &PersistentVolumeClaim, tell| tell(&Change::Claim(&claim.key())));
        listeners.follow(&volumes, |volume, tell| tell(&Change::Volume(volume.name())));
        listeners.follow(&classes, |_: &StorageClass, tell| tell(&Change::Class));
        listeners.follow(&attachments, |attachment, tell| tell(&Change::OfNode(&attachment.spec.node_name)));
        listeners.follow(&csi_nodes, |csi_node: &CSINode, tell| tell(&Change::OfNode(csi_node.name())));
        Self {
            claims: claims.lister(),
            classes: classes.lister(),
            drivers: informers.of().lister(),
            capacities: informers.of().lister(),
            csi_nodes: csi_nodes.lister(),
            volumes: volumes.lister(),
            attachments: attachments.lister(),
            listeners,
        }
    }

    /// Calls a function after each change from now on. It must only note the change.
    pub fn on_change(&self, listener: impl Fn(&Change<'_>) + Send + Sync + 'static) {
        self.listeners.0.lock().push(Box::new(listener));
    }

    /// Returns the volume of this name.
    pub fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.volumes.get("", name)
    }

    pub fn volumes_of_class(&self, class: &str) -> Vec<Arc<PersistentVolume>> {
        self.volumes.by_index(BY_CLASS, class)
    }

    pub fn attachments_of(&self, node: &str) -> Vec<Arc<VolumeAttachment>> {
        self.attachments.by_index(BY_NODE, node)
    }

    /// Returns where the class's driver can make volumes; `None` if the driver does not publish that.
    pub fn capacities_of(&self, class: &StorageClass) -> Option<Vec<Arc<CSIStorageCapacity>>> {
        let driver = self.drivers.get("", &class.provisioner)?;
        driver.spec.storage_capacity.filter(|publishes| *publishes)?;
        Some(self.capacities.filter("", |capacity| capacity.storage_class_name == class.name()))
    }
}

#[cfg(any(test, feature = "testing"))]
impl Storage {
    pub fn empty() -> Self {
        Self {
            claims: Lister::of([]),
            classes: Lister::of([]),
            drivers: Lister::of([]),
            capacities: Lister::of([]),
            csi_nodes: Lister::of([]),
            volumes: Lister::of([]).indexed(BY_CLASS, by_class),
            attachments: Lister::of([]).indexed(BY_NODE, by_node),
            listeners: Listeners::default(),
        }
    }

    #[must_use]
    pub fn with_volumes(self, volumes: impl IntoIterator<Item = PersistentVolume>) -> Self {
        Self { volumes: Lister::of(volumes).indexed(BY_CLASS, by_class), ..self }
    }

    #[must_use]
    pub fn with_attachments(self, attachments: impl IntoIterator<Item = VolumeAttachment>) -> Self {
        Self { attachments: Lister::of(attachments).indexed(BY_NODE, by_node), ..self }
    }
}

fn by_class(volume: &PersistentVolume) -> Vec<String> {
    vec![persistent_volumes::class(volume).to_owned()]
}

fn by_node(attachment: &VolumeAttachment) -> Vec<String> {
    vec![attachment.spec.node_name.clone()]
}

/// Returns true if a claim of the pod has changed.
pub fn changes_claim_of(pod: &PodInfo, event: &ClusterEvent) -> bool {
    matches!(event, ClusterEvent::ClaimChanged(claim) if pod_volumes::claim_keys(&pod.pod).contains(&claim.key()))
}

/// Returns true if a claim of the pod has changed, or if there may be another volume or node for it.
pub fn may_offer_volume(pod: &PodInfo, event: &ClusterEvent) -> bool {
    matches!(event, ClusterEvent::VolumesChanged | ClusterEvent::NodeAdded(_)) || changes_claim_of(pod, event)
}

/// Returns true as `may_offer_volume`, and if a node may have moved within reach of a volume.
pub fn may_bring_volume_in_reach(pod: &PodInfo, event: &ClusterEvent) -> bool {
    let is_moved =
        matches!(event, ClusterEvent::NodeUpdated { old, new } if old.metadata.labels != new.metadata.labels);
    is_moved || may_offer_volume(pod, event)
}
