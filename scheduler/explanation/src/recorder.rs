//! `Recorder`, the last attempts of a scheduler with the snapshots on which they were made.
//!
//! A snapshot is kept as the nodes that have changed since the attempt before. The nodes themselves are shared with the
//! scheduler's cache, which copies a node before it changes it.
//!
//! ```text
//! base (before the oldest attempt) + changes of attempt 7 + changes of attempt 8 = the snapshot of attempt 8
//! ```

use crate::document::GroupPreemption;
use crate::{Attempt, Attempts};
use parking_lot::Mutex;
use scheduling_framework::cache::{NodeInfo, Snapshot};
use std::collections::VecDeque;
use std::sync::Arc;

/// The limits of what is kept. The oldest attempts are dropped first.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub attempts: usize,
    pub bytes: usize,
}

/// About 30 nodes' worth of pods for each of a thousand attempts.
pub const DEFAULT_MAX_BYTES: usize = 64 << 20;

pub struct Recorder {
    limits: Limits,
    ring: Mutex<Ring>,
}

#[derive(Default)]
struct Ring {
    /// Number of attempts that were recorded since the start.
    recorded: u64,
    kept: VecDeque<Kept>,
    bytes: usize,
    /// The nodes before the oldest attempt.
    base: Vec<Arc<NodeInfo>>,
    /// The nodes of the newest attempt.
    newest: Vec<Arc<NodeInfo>>,
}

struct Kept {
    attempt: Arc<Attempt>,
    changes: Changes,
    bytes: usize,
}

/// The difference between the nodes of two attempts.
enum Changes {
    /// Nodes by index.
    Some(Vec<(usize, Arc<NodeInfo>)>),
    /// Nodes were added, removed or put into another order.
    All(Vec<Arc<NodeInfo>>),
}

impl Changes {
    fn between(old: &[Arc<NodeInfo>], new: &[Arc<NodeInfo>]) -> Self {
        if old.len() != new.len() {
            return Self::All(new.to_vec());
        }
        let pairs = old.iter().zip(new).enumerate();
        let changed: Vec<_> =
            pairs.filter(|(_, (old, new))| !Arc::ptr_eq(old, new)).map(|(at, (_, new))| (at, new.clone())).collect();
        if changed.len() * 2 > new.len() { Self::All(new.to_vec()) } else { Self::Some(changed) }
    }

    fn apply(&self, nodes: &mut Vec<Arc<NodeInfo>>) {
        match self {
            Self::All(all) => nodes.clone_from(all),
            Self::Some(changed) => changed.iter().for_each(|(at, node)| nodes[*at] = node.clone()),
        }
    }

    /// Returns about how much memory keeps the replaced nodes alive.
    fn bytes(&self) -> usize {
        /// The maps and lists of a node.
        const OF_NODE: usize = 500;
        let node = |node: &Arc<NodeInfo>| size_of::<NodeInfo>() + OF_NODE + node.pods.len() * size_of::<usize>();
        match self {
            Self::Some(changed) => changed.iter().map(|(_, changed)| node(changed)).sum(),
            Self::All(all) => all.iter().map(node).sum(),
        }
    }
}

impl Recorder {
    pub fn new(limits: Limits) -> Self {
        Self { limits, ring: Mutex::default() }
    }

    /// Returns the attempts that are kept, the oldest first.
    pub fn list(&self) -> Vec<Arc<Attempt>> {
        self.ring.lock().kept.iter().map(|kept| kept.attempt.clone()).collect()
    }

    /// Returns an attempt and its snapshot.
    pub fn get(&self, id: u64) -> Option<(Arc<Attempt>, Snapshot)> {
        let (attempt, nodes) = {
            let ring = self.ring.lock();
            let attempt = ring.find(id)?.attempt.clone();
            let mut nodes = ring.base.clone();
            ring.kept.iter().take_while(|kept| kept.attempt.id <= id).for_each(|kept| kept.changes.apply(&mut nodes));
            (attempt, nodes)
        };
        let mut snapshot = Snapshot::default();
        snapshot.set_namespaces(attempt.namespaces.clone());
        snapshot.rebuild(nodes.into_iter());
        Some((attempt, snapshot))
    }
}

impl Attempts for Recorder {
    /// Keeps an attempt. Returns its number, by which `end` and `get` find it.
    fn record(&self, mut attempt: Attempt, snapshot: &Snapshot) -> u64 {
        let mut ring = self.ring.lock();
        let changes = Changes::between(&ring.newest, snapshot.nodes());
        changes.apply(&mut ring.newest);
        ring.recorded += 1;
        attempt.id = ring.recorded;
        let bytes = attempt.bytes() + changes.bytes();
        ring.bytes += bytes;
        ring.kept.push_back(Kept { attempt: Arc::new(attempt), changes, bytes });
        while ring.kept.len() > self.limits.attempts.max(1) || (ring.bytes > self.limits.bytes && ring.kept.len() > 1) {
            ring.drop_oldest();
        }
        ring.recorded
    }

    fn preempted_for_group(&self, ids: &[u64], preemption: Arc<GroupPreemption>) {
        let ring = self.ring.lock();
        for kept in ids.iter().filter_map(|id| ring.find(*id)) {
            *kept.attempt.group_preemption.lock() = Some(preemption.clone());
        }
    }

    /// Adds what happened after the decision.
    fn end(&self, id: u64, end: &str) {
        if let Some(kept) = self.ring.lock().find(id) {
            *kept.attempt.end.lock() = Some(end.to_owned());
        }
    }
}

impl Ring {
    fn find(&self, id: u64) -> Option<&Kept> {
        let first = self.kept.front()?.attempt.id;
        self.kept.get(usize::try_from(id.checked_sub(first)?).ok()?)
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.kept.pop_front() {
            oldest.changes.apply(&mut self.base);
            self.bytes -= oldest.bytes;
        }
    }
}
