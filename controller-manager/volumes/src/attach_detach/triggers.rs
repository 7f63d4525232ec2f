//! The keys that each event adds to the controller's two queues.
//!
//! Corresponds to the event handlers in pkg/controller/volume/attachdetach/attach_detach_controller.go.

use super::attachment;
use super::observe::{Caches, is_terminated, reported};
use client::{Event, WorkQueue};
use component_helpers::volumes::csi_volume::CsiVolume;
use controller_base::pod;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use proto::kinds::api::storage::v1::{CSIDriver, VolumeAttachment};
use std::sync::Arc;
use std::time::Duration;

pub struct Triggers {
    pub caches: Arc<Caches>,
    /// Unique names of volumes.
    pub volumes: WorkQueue<String>,
    /// Names of nodes.
    pub nodes: WorkQueue<String>,
    /// After which time a vanished attachment is missed; `None` for never.
    pub sync_period: Option<Duration>,
}

impl Triggers {
    fn add(&self, volume: &CsiVolume) {
        self.volumes.add(volume.unique_name());
    }

    /// Adds a volume with the nodes that it concerns. Until the caches know the volume and its claim, the events of those nodes
    /// and of their pods and attachments add nothing.
    fn add_with_nodes(&self, volume: &CsiVolume) {
        self.add(volume);
        let users = self.caches.users(volume).1;
        self.caches.nodes_of(volume, &users).into_iter().for_each(|node| self.nodes.add(node));
    }

    pub fn on_pod(&self, event: &Event<Pod>) {
        let pod = event.object();
        let node = pod::node_name(pod);
        let is_same = |old: &Pod| pod::node_name(old) == node && is_terminated(old) == is_terminated(pod);
        if node.is_empty() || matches!(event, Event::Updated { old, .. } if is_same(old)) {
            return;
        }
        for volume in self.caches.volumes_of_pod(pod) {
            self.add(&volume);
            self.nodes.add(node.to_owned());
        }
    }

    pub fn on_claim(&self, event: &Event<PersistentVolumeClaim>) {
        let volume = self.caches.volume_of_claim(event.object());
        volume.and_then(|volume| CsiVolume::of(&volume)).iter().for_each(|volume| self.add_with_nodes(volume));
    }

    pub fn on_volume(&self, event: &Event<PersistentVolume>) {
        CsiVolume::of(event.object()).iter().for_each(|volume| self.add_with_nodes(volume));
    }

    /// A change of an attachment concerns its volume and its node. One that vanished although the node reports it is
    /// missed later.
    pub fn on_attachment(&self, event: &Event<VolumeAttachment>) {
        let object = event.object();
        let node = object.spec.node_name.clone();
        let Some(volume) = self.caches.volume_of(object) else { return };
        let reports = |node: &Arc<Node>| reported(node).any(|name| name == volume.unique_name());
        let is_missed = matches!(event, Event::Deleted(_))
            && attachment::name(&volume, &node) == object.name()
            && self.caches.nodes.get("", &node).as_ref().is_some_and(reports);
        if !is_missed {
            self.add(&volume);
            self.nodes.add(node);
        } else if let Some(period) = self.sync_period {
            self.volumes.add_after(volume.unique_name(), period);
            self.nodes.add_after(node, period);
        }
    }

    pub fn on_driver(&self, event: &Event<CSIDriver>) {
        let driver = event.object().name();
        let volumes = self.caches.volumes.list();
        let of_driver =
            volumes.iter().filter_map(|volume| CsiVolume::of(volume)).filter(|volume| volume.driver == driver);
        of_driver.for_each(|volume| self.add_with_nodes(&volume));
    }

    pub fn on_node(&self, event: &Event<Node>) {
        let node = event.object();
        if let Event::Updated { old, new } = event {
            if concerns_volumes(old) == concerns_volumes(new) {
                return;
            }
            reported(old).for_each(|name| self.volumes.add(name.to_owned()));
        }
        let volumes = self.caches.volumes_of_node(node);
        if !volumes.is_empty() {
            self.nodes.add(node.name().to_owned());
        }
        volumes.iter().for_each(|volume| self.add(volume));
    }
}

/// Returns what this controller reads of a node; heartbeats change nothing of it.
fn concerns_volumes(node: &Node) -> impl PartialEq + '_ {
    let (status, annotations) = (node.status.as_ref(), node.metadata.annotations.as_ref());
    let ready = status.and_then(|status| status.conditions.iter().flatten().find(|found| found.type_ == "Ready"));
    (
        status.map(|status| (&status.volumes_attached, &status.volumes_in_use)),
        ready.map(|ready| &ready.status),
        node.spec.as_ref().map(|spec| &spec.taints),
        annotations
            .into_iter()
            .flatten()
            .filter(|(key, _)| key.starts_with("volumes.kubernetes.io/"))
            .collect::<Vec<_>>(),
    )
}
