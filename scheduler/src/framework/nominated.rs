//! Pods for which preemption has made room: whoever is not more important leaves it to them.
//!
//! Corresponds to the nominator of pkg/scheduler/backend/queue.

use crate::pod_info::PodInfo;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub struct Nominated {
    /// Pods by uid, by node.
    by_node: BTreeMap<String, BTreeMap<String, Arc<PodInfo>>>,
    /// Where each pod is, by uid.
    nodes: BTreeMap<String, String>,
}

impl Nominated {
    /// An empty node takes the nomination back.
    pub fn set(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.remove(pod.uid());
        if !node.is_empty() {
            self.nodes.insert(pod.uid().to_owned(), node.to_owned());
            self.by_node.entry(node.to_owned()).or_default().insert(pod.uid().to_owned(), pod);
        }
    }

    /// The pod has changed. A nomination that its status does not show yet stays.
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

    /// Others that are nominated to the node and at least as important as the pod.
    pub fn ahead_of<'a>(&'a self, pod: &'a PodInfo, node: &str) -> impl Iterator<Item = &'a Arc<PodInfo>> {
        self.on(node).filter(move |other| other.priority >= pod.priority && other.uid() != pod.uid())
    }

    /// Pods that are nominated to the node and less important than the pod.
    pub fn behind<'a>(&'a self, pod: &'a PodInfo, node: &str) -> impl Iterator<Item = &'a Arc<PodInfo>> {
        self.on(node).filter(move |other| other.priority < pod.priority)
    }

    fn on(&self, node: &str) -> impl Iterator<Item = &Arc<PodInfo>> {
        self.by_node.get(node).into_iter().flat_map(BTreeMap::values)
    }
}
