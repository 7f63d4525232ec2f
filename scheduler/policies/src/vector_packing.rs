//! `BestFit`, `DotProduct` and `Tetris`: policies that compare the vector of what a pod requests with that of what a node has
//! left. With free and request of resource r, M the largest amount that a node of the cluster has, and A that of this node:
//!
//! ```text
//! BestFit      least     sum over r of (free(r) − request(r)) / M(r)
//! DotProduct   least     sum over r of free(r) / M(r) · request(r) / M(r)
//! Tetris       greatest  sum over r of free(r) / A(r) · request(r) / A(r)
//! ```
//!
//! BestFit is the classic heuristic of vector bin packing (Panigrahy et al., "Heuristics for Vector Bin Packing", 2011).
//! Tetris is the alignment of "Multi-Resource Packing for Cluster Schedulers" (SIGCOMM 2014): a pod goes where much is left of
//! what it wants most. DotProduct is the variant with which FGD compares itself (USENIX ATC 2023): the least product, so that
//! full nodes are filled up. Tetris' order of jobs by their remaining work is not part of this.

use crate::best_first::{best_first, raw};
use component_helpers::gpu_sharing::GPU_MILLI;
use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{CycleState, FeasibleNodes, Plugin, PreScore, PreScoreResult, Score};
use serde::Deserialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    BestFit,
    DotProduct,
    Tetris,
}

impl Rule {
    pub fn name(self) -> &'static str {
        match self {
            Self::BestFit => "BestFit",
            Self::DotProduct => "DotProduct",
            Self::Tetris => "Tetris",
        }
    }
}

/// Arguments of the plugins.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VectorArgs {
    /// Resources that are compared, each with the same weight.
    resources: Vec<String>,
}

impl Default for VectorArgs {
    fn default() -> Self {
        Self { resources: ["cpu", "memory", GPU_MILLI].map(str::to_owned).to_vec() }
    }
}

pub struct VectorPacking {
    pub rule: Rule,
    pub args: VectorArgs,
}

/// What a pod and a node have of one resource.
#[derive(Clone, Copy, Debug)]
struct Dimension {
    free: f64,
    request: f64,
    largest: f64,
    allocatable: f64,
}

impl Rule {
    /// Returns the number of one resource. The sum over all resources is to be the greatest.
    fn of(self, dimension: Dimension) -> f64 {
        let Dimension { free, request, largest, allocatable } = dimension;
        // Nobody can have a resource that no node has.
        let ratio = |amount: f64, of: f64| if of > 0.0 { amount / of } else { 0.0 };
        match self {
            Self::BestFit => -ratio(free - request, largest),
            Self::DotProduct => -ratio(free, largest) * ratio(request, largest),
            Self::Tetris => ratio(free, allocatable) * ratio(request, allocatable),
        }
    }
}

impl Plugin for VectorPacking {
    fn name(&self) -> &'static str {
        self.rule.name()
    }
}

impl PreScore for VectorPacking {
    fn pre_score(
        &self,
        state: &mut CycleState,
        _: &PodInfo,
        snapshot: &Snapshot,
        _: &FeasibleNodes<'_>,
    ) -> PreScoreResult {
        let nodes = snapshot.nodes();
        let largest = |resource: &String| nodes.iter().map(|node| node.allocatable.get(resource)).max().unwrap_or(0);
        let largest: Vec<i64> = self.args.resources.iter().map(largest).collect();
        state.write_until_reserve(self.name(), largest);
        PreScoreResult::Score
    }
}

impl Score for VectorPacking {
    fn score(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo, _: &Snapshot) -> i64 {
        let Some(largest) = state.read::<Vec<i64>>(self.name()) else { return 0 };
        let value = self.args.resources.iter().zip(largest).map(|(resource, largest)| {
            let allocatable = node.allocatable.get(resource);
            self.rule.of(Dimension {
                free: allocatable.saturating_sub(node.requested.get(resource)) as f64,
                request: pod.requests.get(resource) as f64,
                largest: *largest as f64,
                allocatable: allocatable as f64,
            })
        });
        raw(value.sum())
    }

    fn normalize(&self, _: &CycleState, _: &PodInfo, _: &FeasibleNodes<'_>, scores: &mut [i64]) {
        best_first(scores);
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::Nodes;
    use serde_json::{Value, json};

    fn capacity(cpu: &str, memory: &str) -> Value {
        json!({"status": {"allocatable": {"cpu": cpu, "memory": memory}}})
    }

    /// Three empty nodes: CPU and memory are 8 and 8, 4 and 4, 4 and 8; the largest are 8 and 8. A pod requests 2 and 4.
    ///
    /// | | square | small | tall |
    /// |---|---|---|---|
    /// | BestFit | 6/8 + 4/8 = 1.25 | 2/8 + 0/8 = 0.25 | 2/8 + 4/8 = 0.75 |
    /// | DotProduct | 1 · 2/8 + 1 · 4/8 = 0.75 | 4/8 · 2/8 + 4/8 · 4/8 = 0.375 | 4/8 · 2/8 + 1 · 4/8 = 0.625 |
    /// | Tetris | 1 · 2/8 + 1 · 4/8 = 0.75 | 2/4 + 4/4 = 1.5 | 2/4 + 4/8 = 1 |
    #[test]
    fn empty_nodes_worked_by_hand() {
        let nodes = Nodes::of(&[
            ("square", capacity("8", "8Gi")),
            ("small", capacity("4", "4Gi")),
            ("tall", capacity("4", "8Gi")),
        ]);
        let resources = json!({"resources": ["cpu", "memory"]});
        let scores = |plugin: &str| nodes.cluster(plugin, &resources).scores("2", "4Gi");
        // 99 · (1.25 − 0.75) / 1 = 49; 99 · (0.75 − 0.625) / 0.375 = 33; 99 · (1 − 0.75) / 0.75 = 33.
        assert_eq!(scores("BestFit"), [("small", 100), ("square", 0), ("tall", 49)]);
        assert_eq!(scores("DotProduct"), [("small", 100), ("square", 0), ("tall", 33)]);
        assert_eq!(scores("Tetris"), [("small", 100), ("square", 0), ("tall", 33)]);
        for plugin in ["BestFit", "DotProduct", "Tetris"] {
            let at_score = nodes.cluster_at_score(plugin, &resources).scores("2", "4Gi");
            assert_eq!(at_score, scores(plugin), "a profile may name {plugin} at Score alone");
        }
    }

    /// Nodes of 8 CPUs and 8 GiB. On `cpu` 2 CPUs are left and all memory, on `memory` all CPUs and 2 GiB, on `both` 5 and
    /// 5. A pod requests 1 CPU and 2 GiB.
    ///
    /// | | cpu | memory | both |
    /// |---|---|---|---|
    /// | BestFit | 1/8 + 6/8 = 0.875 | 7/8 + 0/8 = 0.875 | 4/8 + 3/8 = 0.875 |
    /// | DotProduct, Tetris | (2·1 + 8·2) / 64 = 18/64 | (8·1 + 2·2) / 64 = 12/64 | (5·1 + 5·2) / 64 = 15/64 |
    #[test]
    fn used_nodes_worked_by_hand() {
        let nodes = Nodes::of(&["cpu", "memory", "both"].map(|name| (name, capacity("8", "8Gi"))));
        let used = [("cpu", "6", "0"), ("memory", "0", "6Gi"), ("both", "3", "3Gi")];
        let scores = |plugin: &str| {
            let mut cluster = nodes.cluster(plugin, &json!({"resources": ["cpu", "memory"]}));
            used.iter().for_each(|(node, cpu, memory)| cluster.use_up(node, cpu, memory));
            cluster.scores("1", "2Gi")
        };
        assert_eq!(scores("BestFit"), [("both", 100), ("cpu", 100), ("memory", 100)]);
        assert_eq!(scores("DotProduct"), [("both", 49), ("cpu", 0), ("memory", 100)]);
        assert_eq!(scores("Tetris"), [("both", 49), ("cpu", 100), ("memory", 0)]);
    }
}
