//! `Random` gives each node on which a pod fits the same chance. It is the least that a policy has to be better than.
//!
//! ```text
//! score(pod, node) = hash(seed, name of the pod, name of the node)
//! ```
//!
//! A hash in place of a random stream keeps the cycle pure: the same pod and nodes give the same decision. The scheduler draws the
//! seed when it starts, so that a simulation has other choices under each of its seeds, and the same in both depths.

use crate::best_first::best_first;
use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{CycleState, FeasibleNodes, Plugin, Score};
use serde::Deserialize;

/// Arguments of the plugin.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RandomArgs {
    /// Another seed makes other choices for the same pods.
    seed: u64,
}

pub struct RandomNode {
    pub args: RandomArgs,
    /// The seed that the scheduler has drawn.
    pub drawn: u64,
}

impl Plugin for RandomNode {
    fn name(&self) -> &'static str {
        "Random"
    }
}

impl Score for RandomNode {
    fn score(&self, _: &CycleState, pod: &PodInfo, node: &NodeInfo, _: &Snapshot) -> i64 {
        hash(self.args.seed ^ self.drawn, &[&pod.key, node.name()])
    }

    fn normalize(&self, _: &CycleState, _: &PodInfo, _: &FeasibleNodes<'_>, scores: &mut [i64]) {
        best_first(scores);
    }
}

/// Returns a hash of some texts (FNV-1a, then the finalizer of SplitMix64, because FNV's high bits differ too little).
pub fn hash(seed: u64, texts: &[&str]) -> i64 {
    let mut state = 0xcbf2_9ce4_8422_2325 ^ seed;
    for byte in texts.iter().flat_map(|text| text.bytes().chain([0xff])) {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((state ^ (state >> 31)) >> 1) as i64
}

#[cfg(test)]
mod tests {
    use crate::fixture::Nodes;
    use serde_json::json;

    #[test]
    fn each_node_has_the_same_chance() {
        let large = json!({"status": {"allocatable": {"memory": "1Ti", "pods": "1000"}}});
        let nodes = Nodes::of(&["a", "b", "c"].map(|name| (name, large.clone())));
        let chosen = |seed: u64| -> Vec<String> {
            let mut cluster = nodes.cluster("Random", &json!({"seed": seed}));
            (0..300).map(|at| cluster.choose(&format!("pod-{at}"), "0")).collect()
        };
        let first = chosen(1);
        for node in ["a", "b", "c"] {
            let count = first.iter().filter(|chosen| *chosen == node).count();
            // The standard deviation is 8.
            assert!((70..=130).contains(&count), "{node} was chosen {count} times of 300");
        }
        assert_eq!(first, chosen(1));
        assert_ne!(first, chosen(2));
    }
}
