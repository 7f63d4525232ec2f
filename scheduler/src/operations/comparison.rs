//! `Comparison`, the differences between the scheduler's cache and the objects of the informers.
//!
//! Corresponds to pkg/scheduler/backend/cache/debugger/comparer.go. Between an event's delivery to the informer and to the
//! handlers a difference is normal; one that stays is an error.

use serde::Serialize;
use std::collections::BTreeSet;

#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// Names of nodes that the cache lacks.
    pub missed_nodes: Vec<String>,
    /// Names of nodes that only the cache has.
    pub redundant_nodes: Vec<String>,
    /// Uids of pods that neither cache nor queue has.
    pub missed_pods: Vec<String>,
    pub redundant_pods: Vec<String>,
}

/// What exists, and what the scheduler knows.
#[derive(Debug, Default)]
pub struct Known {
    pub nodes: BTreeSet<String>,
    pub pods: BTreeSet<String>,
}

impl Comparison {
    pub fn between(actual: &Known, cached: &Known) -> Self {
        let without = |all: &BTreeSet<String>, known: &BTreeSet<String>| all.difference(known).cloned().collect();
        Self {
            missed_nodes: without(&actual.nodes, &cached.nodes),
            redundant_nodes: without(&cached.nodes, &actual.nodes),
            missed_pods: without(&actual.pods, &cached.pods),
            redundant_pods: without(&cached.pods, &actual.pods),
        }
    }

    /// Logs the differences in Kubernetes' words.
    pub fn log(&self) {
        let Self { missed_nodes, redundant_nodes, missed_pods, redundant_pods } = self;
        if !missed_nodes.is_empty() || !redundant_nodes.is_empty() {
            tracing::info!(?missed_nodes, ?redundant_nodes, "Cache mismatch");
        }
        if !missed_pods.is_empty() || !redundant_pods.is_empty() {
            tracing::info!(?missed_pods, ?redundant_pods, "Cache mismatch");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_on_one_side() {
        let known = |nodes: &[&str], pods: &[&str]| {
            let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            Known { nodes: set(nodes), pods: set(pods) }
        };
        let same = Comparison::between(&known(&["a"], &["p"]), &known(&["a"], &["p"]));
        assert_eq!(same, Comparison::default());
        let different = Comparison::between(&known(&["a", "b"], &["p"]), &known(&["b", "c"], &["p", "q"]));
        let list = |name: &str| vec![name.to_owned()];
        let expected = Comparison {
            missed_nodes: list("a"),
            redundant_nodes: list("c"),
            missed_pods: vec![],
            redundant_pods: list("q"),
        };
        assert_eq!(different, expected);
    }
}
