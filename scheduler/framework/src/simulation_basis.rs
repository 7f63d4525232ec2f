//! `SimulationBasis`, what a filter reads of other nodes when pods of one node come and go in a simulation.
//!
//! Affinity and spreading read sums over domains of nodes. Most changes elsewhere do not matter to a node: one matching pod more
//! in a zone that has others leaves every verdict as it is. What preemption finds on a node is kept while the basis stays.

use crate::{CycleState, FailedCycle, Filter};
use std::sync::Arc;

/// Adds numbers for a node of the snapshot. `is_alone` is false if pods are nominated to the node, so that a simulation may
/// also add pods.
pub type BasisOfNode<'a> = Box<dyn Fn(usize, bool, &mut Vec<i64>) + 'a>;

pub struct SimulationBasis<'a> {
    /// What is equal for all nodes.
    pub common: Vec<String>,
    pub of_node: BasisOfNode<'a>,
}

/// The bases of all filters that run and are not local.
pub struct Bases<'a> {
    /// The names of the plugins, and what they read for all nodes.
    pub common: Vec<String>,
    of_node: Vec<BasisOfNode<'a>>,
}

impl<'a> Bases<'a> {
    /// Returns `None` if a filter that runs is neither local nor has a basis.
    pub fn of(failed: &'a FailedCycle<'a>) -> Option<Self> {
        let FailedCycle { profile, state, pod, snapshot, .. } = failed;
        let mut bases = Self { common: Vec::new(), of_node: Vec::new() };
        for filter in others(&profile.filter, state) {
            let SimulationBasis { common, of_node } = filter.basis(state, pod, snapshot)?;
            bases.common.push(filter.name().to_owned());
            bases.common.extend(common);
            bases.of_node.push(of_node);
        }
        Some(bases)
    }

    /// Returns true if all filters that run are local.
    pub fn is_empty(&self) -> bool {
        self.of_node.is_empty()
    }

    /// Replaces the numbers by those of a node.
    pub fn read(&self, node: usize, is_alone: bool, numbers: &mut Vec<i64>) {
        numbers.clear();
        self.of_node.iter().for_each(|add| add(node, is_alone, numbers));
    }
}

fn others<'a>(filters: &'a [Arc<dyn Filter>], state: &'a CycleState) -> impl Iterator<Item = &'a Arc<dyn Filter>> {
    filters.iter().filter(|filter| !state.skip_filter.contains(filter.name()) && !filter.is_local(state))
}
