//! `Nominated`, the pods that preemption has nominated to a node. Pods of lower priority do not use their space.
//!
//! Corresponds to the nominator of pkg/scheduler/backend/queue.

use crate::pod_info::PodInfo;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub struct Nominated {
    /// Pods by node, and then by uid.
    by_node: BTreeMap<String, BTreeMap<String, Arc<PodInfo>>>,
    /// Node of each pod, by uid.
    nodes: BTreeMap<String, String>,
}

impl Nominated {
    /// Nominates a pod to a node. An empty node removes the nomination.
    pub fn set(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.remove(pod.uid());
        if !node.is_empty() {
            self.nodes.insert(pod.uid().to_owned(), node.to_owned());
            self.by_node.entry(node.to_owned()).or_default().insert(pod.uid().to_owned(), pod);
        }
    }

    /// Updates a pod. A nomination that its status does not show yet stays.
    pub fn update(&mut self, old: &PodInfo, pod: Arc<PodInfo>) {
        let known = self.nodes.get(pod.uid()).cloned().unwrap_or_default();
        let unchanged = old.nominated_node_name().is_empty() && pod.nominated_node_name().is_empty();
        let node = if unchanged { known } else { pod.nominated_node_name().to_owned() };
        self.set(pod, &node);
    }

    pub fn remove(&mut self, uid: &str) {
        let Some(node) = self.nodes.remove(uid) else { return };
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.remove(uid);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }

    /// Returns the names of the nodes to which pods are nominated.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.by_node.keys().map(String::as_str)
    }

    /// Returns the other pods that are nominated to the node and have the pod's priority or a higher one.
    pub fn of_equal_or_higher_priority<'a>(
        &'a self,
        pod: &'a PodInfo,
        node: &str,
    ) -> impl Iterator<Item = &'a Arc<PodInfo>> {
        self.on(node).filter(move |other| other.priority >= pod.priority && other.uid() != pod.uid())
    }

    /// Returns the pods that are nominated to the node and have a lower priority than the pod.
    pub fn of_lower_priority<'a>(&'a self, pod: &'a PodInfo, node: &str) -> impl Iterator<Item = &'a Arc<PodInfo>> {
        self.on(node).filter(move |other| other.priority < pod.priority)
    }

    /// Returns all pods that are nominated to the node.
    pub fn on(&self, node: &str) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.by_node.get(node).into_iter().flat_map(BTreeMap::values)
    }
}
