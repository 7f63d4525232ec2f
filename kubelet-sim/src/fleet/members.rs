//! The nodes of a fleet: those it starts with, and those that join and leave while it runs.
//!
//! A node keeps its index for as long as the process runs, so that tasks in queues stay about the same node.

use crate::fleet::kubelet::SimulatedKubelet;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The kubelets by index, and the indexes of present nodes by name.
#[derive(Default)]
pub struct Members(RwLock<Known>);

#[derive(Default)]
struct Known {
    /// Those that have left are still here.
    all: Vec<Arc<SimulatedKubelet>>,
    by_name: BTreeMap<String, usize>,
}

impl Members {
    pub fn new(kubelets: impl IntoIterator<Item = SimulatedKubelet>) -> Self {
        let members = Self::default();
        for kubelet in kubelets {
            members.join(kubelet);
        }
        members
    }

    /// Adds a node and returns its index. A node of the same name is replaced.
    pub fn join(&self, kubelet: SimulatedKubelet) -> usize {
        let mut known = self.0.write();
        let index = known.all.len();
        known.by_name.insert(kubelet.machine.name.clone(), index);
        known.all.push(Arc::new(kubelet));
        index
    }

    /// Removes a node, and returns it.
    pub fn leave(&self, name: &str) -> Option<Arc<SimulatedKubelet>> {
        let mut known = self.0.write();
        let index = known.by_name.remove(name)?;
        known.all.get(index).cloned()
    }

    /// Returns the node with this index, also after it has left.
    pub fn at(&self, index: usize) -> Arc<SimulatedKubelet> {
        self.0.read().all[index].clone()
    }

    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.0.read().by_name.get(name).copied()
    }

    pub fn has(&self, name: &str) -> bool {
        self.index_of(name).is_some()
    }

    pub fn named(&self, name: &str) -> Option<Arc<SimulatedKubelet>> {
        let known = self.0.read();
        known.by_name.get(name).map(|&index| known.all[index].clone())
    }

    /// Returns the present nodes with their indexes, by name.
    pub fn present(&self) -> Vec<(usize, Arc<SimulatedKubelet>)> {
        let known = self.0.read();
        known.by_name.values().map(|&index| (index, known.all[index].clone())).collect()
    }

    pub fn names(&self) -> Vec<String> {
        self.0.read().by_name.keys().cloned().collect()
    }

    /// Returns the number of nodes that ever were in the fleet.
    pub fn ever(&self) -> usize {
        self.0.read().all.len()
    }
}
