//! `NominatedVerdicts`, the verdicts on nodes to which pods are nominated. They are kept until the node or its nominations change.
//!
//! Such a node is filtered with the nominated pods and without them, which needs a copy of it. While many preemptions are under
//! way, these are most of the nodes.
//! Invariant: a kept verdict is the one that the filters would give now. It serves only cycles in which every filter is local
//! (`Filter::is_local`), and pods of the same needs and priority that are not nominated to the node themselves.

use crate::Rejection;
use crate::cache::Snapshot;
use crate::pod_info::PodInfo;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Default)]
pub struct NominatedVerdicts {
    priority: i32,
    /// By the node's number.
    verdicts: BTreeMap<usize, Verdict>,
}

struct Verdict {
    /// Generation of the node.
    generation: u64,
    /// Version of its nominations.
    version: u64,
    rejection: Option<Arc<Rejection>>,
}

impl NominatedVerdicts {
    /// Returns the rejection of a node whose nominations have this version, and asks `judge` if something has changed.
    pub fn of(
        &mut self,
        pod: &PodInfo,
        snapshot: &Snapshot,
        node: usize,
        version: u64,
        judge: impl FnOnce() -> Option<Arc<Rejection>>,
    ) -> Option<Arc<Rejection>> {
        if self.priority != pod.priority {
            *self = Self { priority: pod.priority, ..Self::default() };
        }
        let generation = snapshot.generations()[node];
        let is_current =
            |known: &&Verdict| generation != 0 && known.generation == generation && known.version == version;
        if let Some(known) = self.verdicts.get(&node).filter(is_current) {
            return known.rejection.clone();
        }
        let rejection = judge();
        self.verdicts.insert(node, Verdict { generation, version, rejection: rejection.clone() });
        rejection
    }
}
