//! `Cache`, the nodes and their pods. Events update it, and assumed pods are added before their binding is written.
//!
//! Corresponds to pkg/scheduler/backend/cache.

pub mod generation;
pub mod changes;
pub mod namespaces;
pub mod node_parts;
pub mod node_info;
pub mod node_row;
pub mod node_set;
pub mod topology;
pub mod snapshot;

pub use namespaces::Namespaces;
pub use node_info::NodeInfo;
pub use node_row::{NodeResources, NodeRow};
pub use node_set::NodeSet;
pub use snapshot::Snapshot;
pub use topology::Topology;

use crate::pod_info::PodInfo;
use indexmap::IndexMap;
use proto::Kind;
use proto::kinds::api::core::v1::Node;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

/// Derived state: it always equals a rebuild from all nodes, bound pods and assumed pods.
#[derive(Debug, Default)]
pub struct Cache {
    nodes: BTreeMap<String, Arc<NodeInfo>>,
    /// Node of every pod, by the pod's uid.
    pods: IndexMap<String, Placed, BuildHasherDefault<DefaultHasher>>,
    pub namespaces: Namespaces,
    /// Names of the nodes that have changed since the last snapshot.
    changed: BTreeSet<String>,
    /// True if a node was added or deleted, or its zone has changed, since the last snapshot.
    reorder: bool,
}

#[derive(Debug)]
struct Placed {
    node: String,
    /// True if the scheduler has chosen the node and no event has confirmed it.
    assumed: bool,
}

impl Cache {
    /// Adds or updates a node. It keeps its number of what is counted if nothing has changed that scheduling reads.
    pub fn set_node(&mut self, node: Arc<Node>) {
        let name = node.name().to_owned();
        let is_same = |info: &Arc<NodeInfo>| info.node.as_ref().is_some_and(|old| node_parts::are_same(old, &node));
        if let Some(info) = self.nodes.get_mut(&name).filter(|info| is_same(info)) {
            Arc::make_mut(info).set_node(node);
            self.changed.insert(name);
            return;
        }
        let info = self.entry(&name);
        let before = info.node.as_ref().map(|old| snapshot::zone(old));
        let moved = before != Some(snapshot::zone(&node));
        info.set_node(node);
        self.reorder |= moved;
    }

    /// Removes a node. Its entry stays while pods are bound to it, because the node may be created again.
    pub fn remove_node(&mut self, name: &str) {
        let Some(info) = self.nodes.get_mut(name) else { return };
        Arc::make_mut(info).node = None;
        self.drop_if_empty(name);
        self.changed.insert(name.to_owned());
        self.reorder = true;
    }

    /// Adds or updates a bound pod. Confirms an assumed pod, or corrects its node. Returns the former state of the pod.
    pub fn set_pod(&mut self, info: Arc<PodInfo>) -> Option<Arc<PodInfo>> {
        if let Some(old) = self.replace_in_place(&info) {
            return Some(old);
        }
        let old = self.remove_pod(info.uid());
        self.place(info.node_name().to_owned(), info, false);
        old
    }

    /// Replaces a pod that stays on its node and counts there as before. The node keeps its generation, so that what was
    /// kept about it stays valid when a binding is confirmed or a status changes.
    fn replace_in_place(&mut self, info: &Arc<PodInfo>) -> Option<Arc<PodInfo>> {
        let placed = self.pods.get_mut(info.uid()).filter(|placed| placed.node == info.node_name())?;
        let node = self.nodes.get_mut(&placed.node)?;
        if !node.pod(info.uid()).is_some_and(|old| old.counts_as(info)) {
            return None;
        }
        placed.assumed = false;
        if !self.changed.contains(&placed.node) {
            self.changed.insert(placed.node.clone());
        }
        Arc::make_mut(node).replace_pod(info.clone())
    }

    pub fn remove_pod(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        let placed = self.pods.swap_remove(uid)?;
        let info = self.entry(&placed.node).remove_pod(uid);
        self.drop_if_empty(&placed.node);
        info
    }

    /// Adds a pod to a node before it is bound, with the labels that it will have then.
    pub fn assume(&mut self, info: Arc<PodInfo>, node: &str) {
        self.remove_pod(info.uid());
        let known = self.nodes.get(node).and_then(|info| info.node.as_deref());
        let info = known.and_then(|node| info.assumed_on(node)).map_or(info, Arc::new);
        self.place(node.to_owned(), info, true);
    }

    /// Removes an assumed pod whose binding failed. A pod that was confirmed meanwhile stays.
    pub fn forget(&mut self, uid: &str) {
        if self.is_assumed(uid) {
            self.remove_pod(uid);
        }
    }

    pub fn is_assumed(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(|placed| placed.assumed)
    }

    pub fn node(&self, name: &str) -> Option<&Arc<NodeInfo>> {
        self.nodes.get(name)
    }

    /// Returns every node by its name, also those that are gone and have pods.
    pub fn nodes(&self) -> impl Iterator<Item = (&String, &Arc<NodeInfo>)> {
        self.nodes.iter()
    }

    /// Returns the numbers of nodes, pods and assumed pods.
    pub fn counts(&self) -> [usize; 3] {
        let assumed = self.pods.values().filter(|placed| placed.assumed).count();
        [self.nodes.len(), self.pods.len(), assumed]
    }

    /// Updates a snapshot that this cache has updated before. The cost depends on the number of changed nodes.
    pub fn update(&mut self, snapshot: &mut Snapshot) {
        if self.reorder {
            snapshot.rebuild(self.nodes.values().filter(|info| info.node.is_some()).cloned());
        } else {
            for name in &self.changed {
                if let Some(info) = self.nodes.get(name).filter(|info| info.node.is_some()) {
                    snapshot.replace(info.clone());
                }
            }
        }
        snapshot.set_namespaces(self.namespaces.clone());
        self.reorder = false;
        self.changed.clear();
    }

    fn place(&mut self, node: String, info: Arc<PodInfo>, assumed: bool) {
        let uid = info.uid().to_owned();
        self.entry(&node).add_pod(info);
        self.pods.insert(uid, Placed { node, assumed });
    }

    fn entry(&mut self, node: &str) -> &mut NodeInfo {
        if !self.changed.contains(node) {
            self.changed.insert(node.to_owned());
        }
        if !self.nodes.contains_key(node) {
            self.nodes.insert(node.to_owned(), Arc::default());
        }
        let info = Arc::make_mut(self.nodes.get_mut(node).expect("every node has an entry now"));
        info.counts_otherwise();
        info
    }

    fn drop_if_empty(&mut self, node: &str) {
        if self.nodes.get(node).is_some_and(|info| info.node.is_none() && info.pods.is_empty()) {
            self.nodes.remove(node);
        }
    }
}

#[cfg(test)]
mod tests;
