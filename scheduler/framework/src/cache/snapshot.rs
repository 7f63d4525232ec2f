//! `Snapshot`, the nodes at the beginning of a scheduling cycle, in the order in which they are searched.
//!
//! Corresponds to pkg/scheduler/backend/cache/snapshot.go and node_tree.go.

use crate::cache::changes::Changes;
use crate::cache::node_info::subtract;
use crate::cache::topology::{Names, Topologies, Topology};
use crate::cache::{Namespaces, NodeInfo, NodeRow, NodeSet};
use proto::kinds::api::core::v1::Node;
use proto::meta::node_labels::{REGION, ZONE};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A snapshot shares unchanged nodes with the cache.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    nodes: Vec<Arc<NodeInfo>>,
    rows: Vec<NodeRow>,
    /// Generation of each node, beside each other because every cycle reads many.
    generations: Vec<u64>,
    /// Lowest priority of each node's pods.
    lowest_priorities: Vec<i32>,
    /// Names of the nodes, in their order.
    names: Names,
    /// Nodes that have pods.
    with_pods: NodeSet,
    /// Indices of nodes that have pods with affinity or anti-affinity.
    with_affinity: BTreeSet<usize>,
    /// Indices of nodes that have pods with required anti-affinity.
    with_required_anti_affinity: BTreeSet<usize>,
    /// Number of uses of each PersistentVolumeClaim, by its key.
    claim_uses: BTreeMap<String, u32>,
    /// Number of nodes that have each image.
    image_nodes: BTreeMap<String, u32>,
    namespaces: Namespaces,
    topologies: Topologies,
    changes: Changes,
}

/// Returns the region and zone of a node; empty without the labels.
pub fn zone(node: &Node) -> (String, String) {
    let label = |key: &str| node.metadata.labels.as_ref().and_then(|l| l.get(key)).cloned().unwrap_or_default();
    (label(REGION), label(ZONE))
}

impl Snapshot {
    #[inline]
    pub fn nodes(&self) -> &[Arc<NodeInfo>] {
        &self.nodes
    }

    #[inline]
    pub fn rows(&self) -> &[NodeRow] {
        &self.rows
    }

    #[inline]
    pub fn generations(&self) -> &[u64] {
        &self.generations
    }

    /// Returns true if the node has pods of a lower priority.
    pub fn has_lower_priority(&self, node: usize, priority: i32) -> bool {
        self.lowest_priorities[node] < priority
    }

    /// Returns the version of this state, for `changed_since`.
    pub fn version(&self) -> u64 {
        self.changes.version()
    }

    /// Returns the numbers of the nodes that have changed since a version, perhaps several times; `None` if that is not
    /// known. Then everything may have changed, the numbers too.
    pub fn changed_since(&self, version: u64) -> Option<impl Iterator<Item = usize>> {
        self.changes.since(version)
    }

    /// Returns the domains of all nodes for a topology key.
    pub fn topology(&self, key: &str) -> Arc<Topology> {
        self.topologies.get(key, &self.nodes)
    }

    pub fn get(&self, name: &str) -> Option<&Arc<NodeInfo>> {
        self.index_of(name).map(|at| &self.nodes[at])
    }

    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.names.get_index_of(name)
    }

    /// Returns the nodes that have pods.
    pub fn with_pods(&self) -> &NodeSet {
        &self.with_pods
    }

    pub fn with_affinity(&self) -> impl Iterator<Item = &Arc<NodeInfo>> {
        self.with_affinity.iter().map(|at| &self.nodes[*at])
    }

    pub fn with_required_anti_affinity(&self) -> impl Iterator<Item = &Arc<NodeInfo>> {
        self.with_required_anti_affinity.iter().map(|at| &self.nodes[*at])
    }

    /// Returns the number of nodes that have the image.
    pub fn nodes_with_image(&self, image: &str) -> u32 {
        self.image_nodes.get(image).copied().unwrap_or(0)
    }

    /// Returns how often pods use a PersistentVolumeClaim.
    pub fn claim_uses(&self, key: &str) -> u32 {
        self.claim_uses.get(key).copied().unwrap_or(0)
    }

    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    pub fn set_namespaces(&mut self, namespaces: Namespaces) {
        if !self.namespaces.is_same(&namespaces) {
            self.namespaces = namespaces;
            self.changes.restart();
        }
    }

    /// Orders the nodes by taking one of each zone in turn, so that the first nodes are in different zones. Within a
    /// zone they are ordered by name.
    pub fn rebuild(&mut self, nodes: impl Iterator<Item = Arc<NodeInfo>>) {
        let mut zones: BTreeMap<(String, String), Vec<Arc<NodeInfo>>> = BTreeMap::new();
        for info in nodes {
            let zone = info.node.as_ref().map(|node| zone(node)).unwrap_or_default();
            zones.entry(zone).or_default().push(info);
        }
        let mut rows: Vec<_> = zones.into_values().map(Vec::into_iter).collect();
        let namespaces = std::mem::take(&mut self.namespaces);
        let with_pods = NodeSet::empty(rows.iter().map(ExactSizeIterator::len).sum());
        *self = Self { namespaces, with_pods, ..Self::default() };
        while !rows.is_empty() {
            rows.retain_mut(|zone| match zone.next() {
                Some(info) => {
                    self.names.insert(info.name().to_owned());
                    self.nodes.push(Arc::default());
                    self.rows.push(NodeRow::default());
                    self.generations.push(info.counted_generation);
                    self.lowest_priorities.push(info.lowest_priority.0);
                    self.put(self.nodes.len() - 1, info);
                    true
                }
                None => false,
            });
        }
    }

    /// Replaces the former state of a node. If it counts as before, all that is kept about it stays.
    pub fn replace(&mut self, info: Arc<NodeInfo>) {
        let Some(at) = self.index_of(info.name()) else { return };
        if self.generations[at] == info.counted_generation {
            self.lowest_priorities[at] = info.lowest_priority.0;
            self.nodes[at] = info;
            return;
        }
        self.generations[at] = info.counted_generation;
        self.put(at, info);
        self.changes.record(at, self.nodes.len());
    }

    fn put(&mut self, at: usize, info: Arc<NodeInfo>) {
        let old = std::mem::replace(&mut self.nodes[at], info);
        let new = &self.nodes[at];
        self.lowest_priorities[at] = new.lowest_priority.0;
        self.rows[at].update(new);
        self.with_pods.set(at, !new.pods.is_empty());
        mark(&mut self.with_affinity, at, new.with_affinity > 0);
        mark(&mut self.with_required_anti_affinity, at, new.with_required_anti_affinity > 0);
        self.topologies.replace(at, &old, new);
        if !Arc::ptr_eq(&old.claim_uses, &new.claim_uses) {
            old.claim_uses.iter().for_each(|(key, uses)| subtract(&mut self.claim_uses, key, *uses));
            for (key, uses) in &*new.claim_uses {
                *self.claim_uses.entry(key.clone()).or_insert(0) += uses;
            }
        }
        if Arc::ptr_eq(&old.images, &new.images) {
            return;
        }
        for image in old.images.keys() {
            if let Some(count) = self.image_nodes.get_mut(image) {
                *count -= 1;
                if *count == 0 {
                    self.image_nodes.remove(image);
                }
            }
        }
        for image in new.images.keys() {
            *self.image_nodes.entry(image.clone()).or_insert(0) += 1;
        }
    }

    /// Compares everything on which a decision can depend.
    pub fn same_as(&self, other: &Self) -> bool {
        self.nodes.len() == other.nodes.len()
            && self.nodes.iter().zip(&other.nodes).all(|(a, b)| a.same_as(b))
            && self.names == other.names
            && self.with_pods == other.with_pods
            && self.rows == other.rows
            && self.lowest_priorities == other.lowest_priorities
            && self.with_affinity == other.with_affinity
            && self.with_required_anti_affinity == other.with_required_anti_affinity
            && self.claim_uses == other.claim_uses
            && self.image_nodes == other.image_nodes
            && self.namespaces == other.namespaces
    }
}

fn mark(set: &mut BTreeSet<usize>, at: usize, is_in: bool) {
    if is_in {
        set.insert(at);
    } else {
        set.remove(&at);
    }
}
