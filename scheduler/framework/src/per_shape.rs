//! `PerShape`, sums over all nodes that a plugin keeps for each shape of pods.
//!
//! Invariant: the value for a snapshot equals one that is counted from all its nodes. Only nodes that have changed since the
//! last cycle of the shape are counted again.

use crate::cache::Snapshot;
use crate::pod_info::PodInfo;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// Limits of the number of shapes. Small values for large clusters bound the memory.
const MAX_SHAPES: usize = 64;
const MIN_SHAPES: usize = 4;
/// Limit of the number of nodes of all shapes together.
const MAX_NODES_OF_ALL_SHAPES: usize = 1_600_000;

/// Returns the number of shapes for which something is kept about each node.
pub fn shapes_to_keep(nodes: usize) -> usize {
    (MAX_NODES_OF_ALL_SHAPES / nodes.max(1)).clamp(MIN_SHAPES, MAX_SHAPES)
}

/// `K` is what the value depends on besides the shape of the pod.
pub struct PerShape<K, T> {
    /// The most recently used first.
    kept: Mutex<Vec<Kept<K, T>>>,
}

struct Kept<K, T> {
    /// A pod of the shape.
    pod: PodInfo,
    key: K,
    /// Version of the snapshot that was counted.
    version: u64,
    value: Arc<T>,
}

/// A value that is the sum of what every node contributes.
pub trait SumOfNodes<K>: Clone {
    /// Returns the value without any node.
    fn empty(pod: &PodInfo, key: &K, snapshot: &Snapshot) -> Self;

    /// Takes over a new state of the snapshot before nodes are counted again.
    fn follow(&mut self, snapshot: &Snapshot);

    /// True if a node without pods contributes nothing. Most nodes of a new cluster have none.
    const NEEDS_PODS: bool;

    /// Replaces what a node contributes.
    fn recount(&mut self, pod: &PodInfo, key: &K, snapshot: &Snapshot, node: usize);
}

impl<K, T> Default for PerShape<K, T> {
    fn default() -> Self {
        Self { kept: Mutex::default() }
    }
}

impl<K, T> fmt::Debug for PerShape<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerShape").field("shapes", &self.kept.lock().len()).finish()
    }
}

impl<K: PartialEq, T: SumOfNodes<K>> PerShape<K, T> {
    pub fn get(&self, pod: &PodInfo, key: K, snapshot: &Snapshot) -> Arc<T> {
        let mut all = self.kept.lock();
        let found = all.iter().position(|kept| kept.key == key && kept.pod.has_shape_of(pod));
        let kept = match found.map(|at| all.remove(at)) {
            Some(mut kept) => {
                match snapshot.changed_since(kept.version) {
                    Some(changed) => {
                        let mut changed = changed.peekable();
                        if changed.peek().is_some() {
                            let value = Arc::make_mut(&mut kept.value);
                            value.follow(snapshot);
                            changed.for_each(|node| value.recount(pod, &kept.key, snapshot, node));
                        }
                    }
                    None => kept.value = Arc::new(counted(pod, &kept.key, snapshot)),
                }
                Kept { version: snapshot.version(), ..kept }
            }
            None => {
                let value = Arc::new(counted(pod, &key, snapshot));
                Kept { pod: pod.clone(), key, version: snapshot.version(), value }
            }
        };
        let value = kept.value.clone();
        all.truncate(shapes_to_keep(snapshot.nodes().len()) - 1);
        all.insert(0, kept);
        value
    }
}

/// Counts all nodes.
pub fn counted<K, T: SumOfNodes<K>>(pod: &PodInfo, key: &K, snapshot: &Snapshot) -> T {
    let mut value = T::empty(pod, key, snapshot);
    let recount = |node: usize| value.recount(pod, key, snapshot, node);
    match T::NEEDS_PODS {
        true => snapshot.with_pods().iter().for_each(recount),
        false => (0..snapshot.nodes().len()).for_each(recount),
    }
    value
}
