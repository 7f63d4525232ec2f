//! `Topology`, the domain of each node for one topology key, as numbers that index arrays of counts.

use crate::cache::NodeInfo;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Stands for a node without the label.
const NO_DOMAIN: u32 = u32::MAX;

/// Domains are numbered in the order in which they are found. A number stays until the snapshot is rebuilt.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// Number of each node's domain.
    of_node: Vec<u32>,
    /// Number of the domain with each value of the label.
    numbers: BTreeMap<String, u32>,
}

impl Topology {
    fn of(key: &str, nodes: &[Arc<NodeInfo>]) -> Self {
        let mut topology = Self { of_node: vec![NO_DOMAIN; nodes.len()], ..Self::default() };
        for (at, node) in nodes.iter().enumerate() {
            topology.set(at, node.label(key));
        }
        topology
    }

    fn set(&mut self, node: usize, value: Option<&str>) {
        self.of_node[node] = match value {
            None => NO_DOMAIN,
            Some(value) => match self.numbers.get(value) {
                Some(number) => *number,
                None => {
                    let number = self.numbers.len() as u32;
                    self.numbers.insert(value.to_owned(), number);
                    number
                }
            },
        };
    }

    /// Returns the domain of a node of the snapshot.
    pub fn domain_of(&self, node: usize) -> Option<usize> {
        self.of_node.get(node).filter(|number| **number != NO_DOMAIN).map(|number| *number as usize)
    }

    /// Returns the domain with this value of the label.
    pub fn domain(&self, value: &str) -> Option<usize> {
        self.numbers.get(value).map(|number| *number as usize)
    }

    /// Returns the number of domains, those that no node has any more included.
    pub fn domains(&self) -> usize {
        self.numbers.len()
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
