//! `KeptCandidates`, what preemption has found on single nodes. It is kept until the node or its pods change.
//!
//! Invariant: a kept result is the one that a simulation would give now. It serves only pods of the same needs and priority, and the
//! same disruption budgets. If a filter is not local (`Filter::is_local`), it serves only pods of one shape, and only while what the
//! filter reads of other nodes is the same (`Filter::basis`).

use crate::cache::Namespaces;
use crate::pod_info::PodInfo;
use crate::preemption::Candidate;
use crate::simulation_basis::Bases;
use crate::{FailedCycle, Rejection};
use proto::kinds::api::policy::v1::PodDisruptionBudget;
use std::sync::Arc;

/// The victims on a node, or the reason for which their eviction does not help.
pub type Simulated = Result<Arc<Candidate>, Arc<Rejection>>;

#[derive(Default)]
pub struct KeptCandidates {
    priority: i32,
    budgets: Vec<Arc<PodDisruptionBudget>>,
    /// What the filters read for all nodes.
    common: Vec<String>,
    /// One of the pods, and the labels of namespaces; `None` if all filters are local.
    shape: Option<(PodInfo, Namespaces)>,
    results: Vec<Option<Kept>>,
}

/// The result of a node.
struct Kept {
    /// Generation of the node.
    generation: u64,
    /// Version of its nominations.
    nominations: u64,
    /// What the filters read of other nodes.
    basis: Box<[i64]>,
    simulated: Simulated,
}

impl KeptCandidates {
    /// Forgets the results if they do not serve this cycle.
    pub fn prepare(&mut self, failed: &FailedCycle<'_>, budgets: Vec<Arc<PodDisruptionBudget>>, bases: &Bases<'_>) {
        let (pod, nodes) = (failed.pod, failed.snapshot.nodes().len());
        let namespaces = failed.snapshot.namespaces();
        let same_budgets =
            self.budgets.len() == budgets.len() && self.budgets.iter().zip(&budgets).all(|(a, b)| Arc::ptr_eq(a, b));
        let same_shape = match &self.shape {
            Some((of, labels)) => !bases.is_empty() && of.has_shape_of(pod) && labels.is_same(namespaces),
            None => bases.is_empty(),
        };
        let serves = self.priority == pod.priority && same_budgets && same_shape && self.common == bases.common;
        if !serves || self.results.len() != nodes {
            let shape = (!bases.is_empty()).then(|| (pod.clone(), namespaces.clone()));
            let results = (0..nodes).map(|_| None).collect();
            *self = Self { priority: pod.priority, budgets, common: bases.common.clone(), shape, results };
        }
    }

    /// Returns the result of a node whose nominations have this version, and simulates it if something has changed. The pod is not
    /// nominated to it. `basis` is that of the node.
    pub fn of(
        &mut self,
        failed: &FailedCycle<'_>,
        node: usize,
        nominations: u64,
        basis: &[i64],
        simulate: impl FnOnce() -> Simulated,
    ) -> Simulated {
        let generation = failed.snapshot.nodes()[node].generation;
        let is_current = |kept: &&Kept| {
            generation != 0 && kept.generation == generation && kept.nominations == nominations && *kept.basis == *basis
        };
        if let Some(kept) = self.results[node].as_ref().filter(is_current) {
            return kept.simulated.clone();
        }
        let simulated = simulate();
        self.results[node] = Some(Kept { generation, nominations, basis: basis.into(), simulated: simulated.clone() });
        simulated
    }
}
