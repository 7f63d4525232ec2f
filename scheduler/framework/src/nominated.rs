//! `Nominated`, the pods that preemption has nominated to a node. Pods of lower priority do not use their space.
//!
//! Corresponds to the nominator of pkg/scheduler/backend/queue.

use crate::cache::{Snapshot, generation};
use crate::pod_info::PodInfo;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A clone shares the nominations until one of both changes, because every cycle needs one.
#[derive(Clone, Debug, Default)]
pub struct Nominated(Arc<Nominations>);

#[derive(Clone, Debug, Default)]
struct Nominations {
    by_node: BTreeMap<String, OfNode>,
    /// Node of each pod, by uid.
    nodes: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default)]
struct OfNode {
    /// Number of this state. No other state of any node has it.
    version: u64,
    /// Pods by uid.
    pods: BTreeMap<String, Arc<PodInfo>>,
}

impl Nominated {
    /// Nominates a pod to a node. An empty node removes the nomination.
    pub fn set(&mut self, pod: Arc<PodInfo>, node: &str) {
        self.remove(pod.uid());
        if !node.is_empty() {
            let Nominations { by_node, nodes } = Arc::make_mut(&mut self.0);
            nodes.insert(pod.uid().to_owned(), node.to_owned());
            let of_node = by_node.entry(node.to_owned()).or_default();
            of_node.version = generation::next();
            of_node.pods.insert(pod.uid().to_owned(), pod);
        }
    }

    /// Updates a pod. A nomination that its status does not show yet stays.
    pub fn update(&mut self, old: &PodInfo, pod: Arc<PodInfo>) {
        let known = self.node_of(pod.uid()).unwrap_or_default().to_owned();
        let unchanged = old.nominated_node_name().is_empty() && pod.nominated_node_name().is_empty();
        let node = if unchanged { known } else { pod.nominated_node_name().to_owned() };
        self.set(pod, &node);
    }

    pub fn remove(&mut self, uid: &str) {
        if self.node_of(uid).is_none() {
            return;
        }
        let Nominations { by_node, nodes } = Arc::make_mut(&mut self.0);
        let Some(node) = nodes.remove(uid) else { return };
        if let Some(of_node) = by_node.get_mut(&node) {
            of_node.version = generation::next();
            of_node.pods.remove(uid);
            if of_node.pods.is_empty() {
                by_node.remove(&node);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.by_node.is_empty()
    }

    /// Returns the node to which a pod is nominated.
    pub fn node_of(&self, uid: &str) -> Option<&str> {
        self.0.nodes.get(uid).map(String::as_str)
    }

    /// Returns the numbers of the nodes to which pods are nominated, each with the version of its nominations.
    pub fn versions(&self, snapshot: &Snapshot) -> BTreeMap<usize, u64> {
        let nodes = self.0.by_node.iter();
        nodes.filter_map(|(name, of_node)| Some((snapshot.index_of(name)?, of_node.version))).collect()
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
        self.0.by_node.get(node).into_iter().flat_map(|of_node| of_node.pods.values())
    }
}
