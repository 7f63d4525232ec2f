//! `Topology`, the domain of each node for one topology key, as numbers that index arrays of counts.

use crate::cache::{NodeInfo, NodeSet};
use indexmap::IndexSet;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

/// Stands for a node without the label.
const NO_DOMAIN: u32 = u32::MAX;
/// With more domains, the nodes of each are not kept as a set. Zones are few; hostnames are as many as nodes.
const MAX_DOMAINS_WITH_SETS: usize = 64;

/// Names whose places are their numbers. A large cluster has as many hostnames as nodes, and finding one in an ordered map
/// takes many comparisons. The hasher has no seed.
pub type Names = IndexSet<String, BuildHasherDefault<DefaultHasher>>;

/// Domains are numbered in the order in which they are found. A number stays until the snapshot is rebuilt.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// Number of each node's domain.
    of_node: Vec<u32>,
    /// Values of the label; the place of a value is the number of its domain.
    values: Names,
    /// Nodes that are in a domain.
    labelled: NodeSet,
    /// Nodes of each domain; empty if there are many domains.
    members: Vec<NodeSet>,
}

impl Topology {
    fn of(key: &str, nodes: &[Arc<NodeInfo>]) -> Self {
        let labelled = NodeSet::empty(nodes.len());
        let mut topology = Self { of_node: vec![NO_DOMAIN; nodes.len()], labelled, ..Self::default() };
        for (at, node) in nodes.iter().enumerate() {
            topology.set(at, node.label(key));
        }
        topology
    }

    fn set(&mut self, node: usize, value: Option<&str>) {
        let (old, new) = (self.of_node[node], value.map_or(NO_DOMAIN, |value| self.number(value)));
        self.of_node[node] = new;
        self.labelled.set(node, new != NO_DOMAIN);
        for (domain, is_in) in [(old, false), (new, true)] {
            if let Some(members) = self.members.get_mut(domain as usize) {
                members.set(node, is_in);
            }
        }
    }

    fn number(&mut self, value: &str) -> u32 {
        if let Some(number) = self.values.get_index_of(value) {
            return number as u32;
        }
        let (number, _) = self.values.insert_full(value.to_owned());
        match number < MAX_DOMAINS_WITH_SETS {
            true => self.members.push(NodeSet::empty(self.of_node.len())),
            false => self.members.clear(),
        }
        number as u32
    }

    /// Returns the nodes that are in a domain.
    pub fn labelled(&self) -> &NodeSet {
        &self.labelled
    }

    /// Returns the nodes of each domain; `None` if there are many domains.
    pub fn members(&self) -> Option<&[NodeSet]> {
        (self.members.len() == self.values.len()).then_some(&self.members)
    }

    /// Returns the number of each node's domain. A node without the label has one that no domain has.
    pub fn of_nodes(&self) -> &[u32] {
        &self.of_node
    }

    /// Returns the domain of a node of the snapshot.
    #[inline]
    pub fn domain_of(&self, node: usize) -> Option<usize> {
        self.of_node.get(node).filter(|number| **number != NO_DOMAIN).map(|number| *number as usize)
    }

    /// Returns the domain with this value of the label.
    pub fn domain(&self, value: &str) -> Option<usize> {
        self.values.get_index_of(value)
    }

    /// Returns the domain of a node of the snapshot, and the number of domains for a node without the label.
    #[inline]
    pub fn domain_or_last(&self, node: usize) -> usize {
        (self.of_node[node] as usize).min(self.values.len())
    }

    /// Returns the number of domains, those that no node has any more included.
    pub fn domains(&self) -> usize {
        self.values.len()
    }
}

/// The topologies of a snapshot that somebody has asked for.
#[derive(Debug, Default)]
pub struct Topologies(Mutex<BTreeMap<String, Arc<Topology>>>);

impl Clone for Topologies {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }
}

impl Topologies {
    pub fn get(&self, key: &str, nodes: &[Arc<NodeInfo>]) -> Arc<Topology> {
        let mut all = self.0.lock();
        if let Some(topology) = all.get(key) {
            return topology.clone();
        }
        let topology = Arc::new(Topology::of(key, nodes));
        all.insert(key.to_owned(), topology.clone());
        topology
    }

    /// Updates one node.
    pub fn replace(&mut self, at: usize, old: &NodeInfo, new: &NodeInfo) {
        let is_same_object = old.node.as_ref().zip(new.node.as_ref()).is_some_and(|(old, new)| Arc::ptr_eq(old, new));
        if is_same_object || old.labels() == new.labels() {
            return;
        }
        for (key, topology) in self.0.get_mut() {
            if old.label(key) != new.label(key) {
                Arc::make_mut(topology).set(at, new.label(key));
            }
        }
    }
}
