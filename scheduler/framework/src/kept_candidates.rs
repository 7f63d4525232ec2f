//! `KeptCandidates`, what preemption has found on single nodes. It is kept until the node or its pods change.
//!
//! Invariant: a kept result is the one that a simulation would give now. It serves only cycles in which every filter is local
//! (`Filter::is_local`), pods of the same needs and priority, and the same disruption budgets.

use crate::preemption::Candidate;
use crate::{FailedCycle, Rejection};
use proto::kinds::api::policy::v1::PodDisruptionBudget;
use std::sync::Arc;

/// The victims on a node, or the reason for which their eviction does not help.
pub type Simulated = Result<Arc<Candidate>, Arc<Rejection>>;

#[derive(Default)]
pub struct KeptCandidates {
    priority: i32,
    budgets: Vec<Arc<PodDisruptionBudget>>,
    /// Generation of each node and version of its nominations, with its result.
    results: Vec<((u64, u64), Option<Simulated>)>,
}

impl KeptCandidates {
    /// Forgets the results if they do not serve this cycle.
    pub fn prepare(&mut self, failed: &FailedCycle<'_>, budgets: Vec<Arc<PodDisruptionBudget>>) {
        let nodes = failed.snapshot.nodes().len();
        let same_budgets =
            self.budgets.len() == budgets.len() && self.budgets.iter().zip(&budgets).all(|(a, b)| Arc::ptr_eq(a, b));
        if self.priority != failed.pod.priority || !same_budgets || self.results.len() != nodes {
            *self = Self { priority: failed.pod.priority, budgets, results: vec![((0, 0), None); nodes] };
        }
    }

    /// Returns the result of a node whose nominations have this version, and simulates it if something has changed. The pod is not
    /// nominated to it.
    pub fn of(
        &mut self,
        failed: &FailedCycle<'_>,
        node: usize,
        nominations: u64,
        simulate: impl FnOnce() -> Simulated,
    ) -> Simulated {
        let generation = failed.snapshot.nodes()[node].generation;
        let (of, result) = &mut self.results[node];
        match result {
            Some(result) if generation != 0 && *of == (generation, nominations) => result.clone(),
            _ => {
                *of = (generation, nominations);
                result.insert(simulate()).clone()
            }
        }
    }
}
