//! `FirstFit` takes the first node, in the order of names, on which a pod fits.
//!
//! The number at the end of a name counts as a number, so that node-2 comes before node-10. Kubernetes searches only a part of
//! a large cluster; with `percentageOfNodesToScore: 100` the first node is that of the whole cluster.

use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{CycleState, FeasibleNodes, MAX_NODE_SCORE, Plugin, Score};

pub struct FirstFit;

impl Plugin for FirstFit {
    fn name(&self) -> &'static str {
        "FirstFit"
    }
}

impl Score for FirstFit {
    /// The place of a node is known only when all nodes are.
    fn score(&self, _: &CycleState, _: &PodInfo, _: &NodeInfo, _: &Snapshot) -> i64 {
        0
    }

    fn normalize(&self, _: &CycleState, _: &PodInfo, nodes: &FeasibleNodes<'_>, scores: &mut [i64]) {
        let first = nodes.iter().map(|node| place(node.name())).min();
        for (node, score) in nodes.iter().zip(scores) {
            *score = if Some(place(node.name())) == first { MAX_NODE_SCORE } else { 0 };
        }
    }
}

/// Returns the text of a name, the number at its end, and the name itself, which tells `a1` and `a01` apart.
fn place(name: &str) -> (&str, u64, &str) {
    let text = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (text, name[text.len()..].parse().unwrap_or(0), name)
}

#[cfg(test)]
mod tests {
    use crate::fixture::Nodes;
    use serde_json::json;

    #[test]
    fn the_first_node_that_fits() {
        let nodes = Nodes::of(&[("n-10", json!({})), ("n-9", json!({})), ("n-11", json!({}))]);
        let mut cluster = nodes.cluster("FirstFit", &json!({}));
        // Each node has 4 cores.
        let chosen: Vec<String> = (0..5).map(|at| cluster.choose(&format!("pod-{at}"), "2")).collect();
        assert_eq!(chosen, ["n-9", "n-9", "n-10", "n-10", "n-11"]);
    }
}
