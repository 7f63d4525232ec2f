//! Placements: sets of nodes, one of which takes all pods of a PodGroup.
//!
//! Corresponds to the extension points PlacementGenerate and PlacementScore of k8s.io/kube-scheduler/framework.

use crate::cache::{NodeInfo, Snapshot};
use crate::pod_info::PodInfo;
use crate::{MAX_NODE_SCORE, Plugin, PodGroups};
use std::sync::Arc;

/// Nodes on which a group may be scheduled.
#[derive(Clone, Debug)]
pub struct Placement {
    /// Name of the topology domain, for example.
    pub name: String,
    pub nodes: Vec<Arc<NodeInfo>>,
}

impl Placement {
    /// Returns the snapshot of these nodes alone.
    pub fn snapshot(&self, whole: &Snapshot) -> Snapshot {
        let mut restricted = Snapshot::default();
        restricted.set_namespaces(whole.namespaces().clone());
        restricted.rebuild(self.nodes.iter().cloned());
        restricted
    }
}

/// A group whose pods are being scheduled.
pub struct GroupInCycle<'a> {
    /// Key of the group: `NAMESPACE/NAME`.
    pub key: &'a str,
    pub groups: &'a PodGroups,
    /// Pods of the group that need nodes, in the order in which they get them.
    pub pods: &'a [Arc<PodInfo>],
    /// All nodes.
    pub snapshot: &'a Snapshot,
}

/// Divides a placement into smaller ones.
pub trait PlacementGenerate: Plugin {
    /// Returns the placements in the order in which they are tried, or why there are none.
    fn generate_placements(&self, group: &GroupInCycle<'_>, parent: &Placement) -> Result<Vec<Placement>, String>;
}

/// The nodes that the pods of a group would get in a placement.
pub struct Assignments<'a> {
    pub placement: &'a Placement,
    /// Pods with their nodes. Pods that do not fit are left out.
    pub proposed: Vec<(&'a PodInfo, &'a str)>,
}

/// Scores the placements in which the group fits.
pub trait PlacementScore: Plugin {
    fn score_placement(&self, group: &GroupInCycle<'_>, assignments: &Assignments<'_>) -> i64;

    /// Scales the scores of all placements to between 0 and `MAX_NODE_SCORE`.
    fn normalize_placements(&self, scores: &mut [i64]) {
        scores.iter_mut().for_each(|score| *score = (*score).clamp(0, MAX_NODE_SCORE));
    }
}
