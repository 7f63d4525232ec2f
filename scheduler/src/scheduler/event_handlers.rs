//! The event handlers, which update the cache and the queue.
//!
//! Corresponds to pkg/scheduler/eventhandlers.go. Handlers run in the informers' tasks and do not wait.

use super::{Scheduler, node_name};
use client::{Event, Informer, Informers};
use proto::Kind;
use proto::kinds::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use proto::kinds::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use proto::kinds::api::resource::v1beta2::DeviceTaintRule;
use proto::kinds::api::scheduling::v1alpha2::PodGroup;
use proto::kinds::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment};
use scheduling_framework::ClusterEvent;
use scheduling_framework::pod_info::PodInfo;
use std::sync::Arc;

impl Scheduler {
    pub(super) fn add_event_handlers(self: &Arc<Self>, informers: &Informers, pods: &Informer<Pod>) {
        let handler = self.clone();
        pods.on_event(move |event| handler.on_pod(event));
        let handler = self.clone();
        informers.of::<Node>().on_event(move |event| handler.on_node(event));
        let handler = self.clone();
        informers.of::<Namespace>().on_event(move |event| handler.on_namespace(event));
        let handler = self.clone();
        informers
            .of::<PersistentVolumeClaim>()
            .on_event(move |event| handler.move_pods(&ClusterEvent::ClaimChanged(event.object().clone())));
        self.on_storage::<PersistentVolume>(informers);
        self.on_storage::<StorageClass>(informers);
        self.on_storage::<CSIDriver>(informers);
        self.on_storage::<CSIStorageCapacity>(informers);
        self.on_storage::<CSINode>(informers);
        let handler = self.clone();
        informers.of::<VolumeAttachment>().on_event(move |event| {
            if let Event::Deleted(_) = event {
                handler.move_pods(&ClusterEvent::VolumesChanged);
            }
        });
        let handler = self.clone();
        informers.of::<ResourceClaim>().on_event(move |event| handler.on_resource_claim(event));
        self.on_devices::<DeviceClass>(informers);
        self.on_devices::<ResourceSlice>(informers);
        if self.sees_taint_rules {
            let handler = self.clone();
            // The end of a rule frees devices.
            informers.of::<DeviceTaintRule>().on_event(move |_| handler.move_pods(&ClusterEvent::DevicesChanged));
        }
        if self.schedules_groups {
            let handler = self.clone();
            informers.of::<PodGroup>().on_event(move |event| handler.on_pod_group(event));
        }
    }

    fn on_pod_group(&self, event: &Event<PodGroup>) {
        match event {
            Event::Added(group) => {
                self.pod_groups.set_object(group.clone());
                self.move_pods(&ClusterEvent::PodGroupAdded(group.clone()));
            }
            Event::Updated { new, .. } => self.pod_groups.set_object(new.clone()),
            Event::Deleted(group) => self.pod_groups.remove_object(&group.key()),
        }
    }

    fn on_devices<T: Kind>(self: &Arc<Self>, informers: &Informers) {
        let handler = self.clone();
        informers.of::<T>().on_event(move |event| match event {
            // A resync repeats the same version.
            Event::Updated { old, new } if old.resource_version() == new.resource_version() => {}
            Event::Deleted(_) => {}
            _ => handler.move_pods(&ClusterEvent::DevicesChanged),
        });
    }

    fn on_resource_claim(&self, event: &Event<ResourceClaim>) {
        let (old, new) = match event.clone() {
            Event::Added(new) => (None, Some(new)),
            Event::Updated { old, new } if old.resource_version() == new.resource_version() => return,
            Event::Updated { old, new } => (Some(old), Some(new)),
            Event::Deleted(old) => (Some(old), None),
        };
        self.move_pods(&ClusterEvent::ResourceClaimChanged { old, new });
    }

    fn on_storage<T: Kind>(self: &Arc<Self>, informers: &Informers) {
        let handler = self.clone();
        informers.of::<T>().on_event(move |_| handler.move_pods(&ClusterEvent::VolumesChanged));
    }

    /// Tries unschedulable pods again that the event may help.
    fn move_pods(&self, event: &ClusterEvent) {
        let began = self.env.now();
        self.queue.with(|queue, now| queue.on_event(event, now));
        self.metrics.handled_event(event.label(), self.env.now() - began);
    }

    fn on_pod(&self, event: &Event<Pod>) {
        match event {
            Event::Added(pod) => self.pod_added(pod),
            Event::Updated { old, new } if old.uid() != new.uid() => {
                self.pod_deleted(old);
                self.pod_added(new);
            }
            Event::Updated { old, new } if node_name(old).is_empty() && !node_name(new).is_empty() => {
                self.queue.with(|queue, _| queue.remove(new.uid()));
                self.pod_added(new);
            }
            // A resync repeats the same version.
            Event::Updated { old, new } if old.resource_version() == new.resource_version() => {}
            Event::Updated { new, .. } if !node_name(new).is_empty() => self.assigned_pod_updated(new),
            Event::Updated { old, new } if self.is_ours(new) => self.waiting_pod_updated(old, new),
            Event::Updated { .. } => {}
            Event::Deleted(pod) => self.pod_deleted(pod),
        }
    }

    fn pod_added(&self, pod: &Arc<Pod>) {
        let info = Arc::new(PodInfo::new(pod.clone()));
        if !info.node_name().is_empty() {
            self.cache.lock().set_pod(info.clone());
            self.pod_groups.set_pod(&info);
            self.move_pods(&ClusterEvent::AssignedPodAdded(info));
        } else if self.is_ours(pod) {
            self.pod_groups.set_pod(&info);
            self.queue.with(|queue, now| queue.add(info.clone(), now));
            if self.schedules_groups && info.pod_group_key().is_some() {
                self.move_pods(&ClusterEvent::UnscheduledPodAdded(info));
            }
        }
    }

    fn assigned_pod_updated(&self, pod: &Arc<Pod>) {
        let info = Arc::new(PodInfo::new(pod.clone()));
        let old = self.cache.lock().set_pod(info.clone());
        if let Some(event) = old.and_then(|old| ClusterEvent::assigned_pod_updated(old, info)) {
            self.move_pods(&event);
        }
    }

    fn waiting_pod_updated(&self, old: &Arc<Pod>, new: &Arc<Pod>) {
        if self.cache.lock().is_assumed(new.uid()) {
            if new.is_deleting() && !old.is_deleting() {
                self.assumed_pod_deleted(new.uid());
            }
            return;
        }
        let (old, new) = (Arc::new(PodInfo::new(old.clone())), Arc::new(PodInfo::new(new.clone())));
        self.queue.with(|queue, now| queue.update(old.clone(), new.clone(), now));
        if old.nominated_node_name() != new.nominated_node_name() {
            self.nomination_ended(old);
        }
    }

    fn pod_deleted(&self, pod: &Arc<Pod>) {
        self.queue.with(|queue, _| queue.remove(pod.uid()));
        self.pod_groups.remove_pod(&PodInfo::new(pod.clone()));
        if !node_name(pod).is_empty() {
            self.cache.lock().remove_pod(pod.uid());
            self.move_pods(&ClusterEvent::AssignedPodDeleted(Arc::new(PodInfo::new(pod.clone()))));
        } else if self.cache.lock().is_assumed(pod.uid()) {
            self.assumed_pod_deleted(pod.uid());
        } else if self.is_ours(pod) {
            self.nomination_ended(Arc::new(PodInfo::new(pod.clone())));
        }
    }

    /// Releases the resources of a deleted pod that waits in Permit, or whose binding is still being written and will fail.
    fn assumed_pod_deleted(&self, uid: &str) {
        self.waiting_pods.reject(uid, "", "removed");
        let removed = self.cache.lock().remove_pod(uid);
        if let Some(removed) = removed {
            self.move_pods(&ClusterEvent::AssignedPodDeleted(removed));
        }
    }

    /// Tries pods of the same or a lower priority again, which could not use the space of the nominated pod.
    fn nomination_ended(&self, pod: Arc<PodInfo>) {
        if pod.nominated_node_name().is_empty() {
            return;
        }
        let (priority, event) = (pod.priority, ClusterEvent::AssignedPodDeleted(pod));
        self.queue.with(|queue, now| queue.on_event_for(&event, now, |other| other.priority <= priority));
    }

    fn on_node(&self, event: &Event<Node>) {
        let event = match event {
            Event::Added(node) => {
                self.cache.lock().set_node(node.clone());
                Some(ClusterEvent::NodeAdded(node.clone()))
            }
            Event::Updated { old, new } => {
                self.cache.lock().set_node(new.clone());
                ClusterEvent::node_updated(old, new)
            }
            Event::Deleted(node) => {
                self.cache.lock().remove_node(node.name());
                Some(ClusterEvent::NodeDeleted(node.clone()))
            }
        };
        if let Some(event) = event {
            self.move_pods(&event);
        }
    }

    fn on_namespace(&self, event: &Event<Namespace>) {
        let mut cache = self.cache.lock();
        match event {
            Event::Deleted(namespace) => cache.namespaces.remove(namespace.name()),
            _ => cache.namespaces.set(event.object()),
        }
    }
}
