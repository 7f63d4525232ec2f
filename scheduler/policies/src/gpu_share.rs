//! `GpuShare` gives pods parts of GPUs: it rejects nodes on which no GPU has enough left, chooses the GPUs on the node, and
//! writes their places into the annotation `alibabacloud.com/gpu-index` of the pod, with its binding.
//!
//! A pod says in annotations how many GPUs it wants, how much of each, and which models will do (see
//! `component_helpers::gpu_sharing`). Corresponds to Open-Gpu-Share of the simulator of FGD ("Beware of Fragmentation", USENIX
//! ATC 2023). The sum of thousandths is a resource, so that NodeResourcesFit counts it too.

use crate::fgd;
use crate::gradient::Gradient;
use crate::ledger::{Ledger, NodeGpus};
use crate::random::hash;
use component_helpers::gpu_sharing::{GPU_INDEX, GpuNeed, places_text};
use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{ClusterEvent, CycleState, Filter, Plugin, PreFilter, PreFilterResult, Rejection, Reserve};
use serde::Deserialize;
use std::sync::Arc;

pub const NAME: &str = "GpuShare";

/// Why a node does not do.
const WRONG_MODEL: &str = "node(s) had no GPU of a model that the pod accepts";
const TOO_LITTLE_LEFT: &str = "node(s) had too few GPUs with enough left";

/// Arguments of the plugin.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GpuShareArgs {
    /// Which GPUs of the node the pod gets, where FGD does not choose them.
    gpu: Choice,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
enum Choice {
    /// Those that have the least left.
    #[default]
    Tightest,
    /// Those that have the most left.
    Loosest,
    /// Those with the lowest places.
    First,
    /// Any, by a hash of the pod's name.
    Random,
}

impl Choice {
    fn places(self, need: &GpuNeed, left: &[i64], pod: &PodInfo, drawn: u64) -> Option<Vec<usize>> {
        let mut places: Vec<usize> = need.fitting(left).collect();
        match self {
            Self::Tightest => return need.tightest(left),
            Self::Loosest => places.sort_by_key(|place| (-left[*place], *place)),
            Self::First => {}
            Self::Random => places.sort_by_key(|place| hash(drawn, &[&pod.key, &place.to_string()])),
        }
        need.first_of(places)
    }
}

pub struct GpuShare {
    pub args: GpuShareArgs,
    pub ledger: Arc<Ledger>,
    /// The seed that the scheduler has drawn.
    pub drawn: u64,
}

/// What a cycle keeps about a pod with GPUs.
#[derive(Clone)]
struct Wanted {
    need: GpuNeed,
    /// The nodes at the beginning of the cycle; none after Reserve.
    nodes: Vec<Arc<NodeInfo>>,
}

impl Plugin for GpuShare {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Returns true if GPUs may have become free, or a node has come or changed.
    fn may_become_schedulable(&self, _: &PodInfo, event: &ClusterEvent) -> bool {
        matches!(event, ClusterEvent::AssignedPodDeleted(_) | ClusterEvent::PodUpdated { .. })
            || event.node_change().is_some()
    }
}

impl PreFilter for GpuShare {
    fn pre_filter(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
    ) -> Result<PreFilterResult, Rejection> {
        let need = GpuNeed::of(&pod.pod.metadata).map_err(|why| Rejection::unresolvable(NAME, why))?;
        let Some(need) = need else { return Ok(PreFilterResult::Skip) };
        state.write(NAME, Wanted { need, nodes: snapshot.nodes().to_vec() });
        Ok(PreFilterResult::AllNodes)
    }
}

impl Filter for GpuShare {
    fn filter(&self, state: &CycleState, _: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        let Some(Wanted { need, .. }) = state.read(NAME) else { return Ok(()) };
        let gpus = self.ledger.gpus(node);
        if gpus.left.len() < need.count as usize || !need.accepts(&gpus.model) {
            return Err(Rejection::unresolvable(NAME, WRONG_MODEL));
        }
        match need.fits(&gpus.left) {
            true => Ok(()),
            false => Err(Rejection::unschedulable(NAME, TOO_LITTLE_LEFT)),
        }
    }
}

impl GpuShare {
    /// Returns the places for a pod on a node: those of FGD's gradient if the profile has that policy.
    fn choose(&self, state: &CycleState, pod: &PodInfo, need: &GpuNeed, node: &NodeInfo) -> Option<Vec<usize>> {
        let gpus: Arc<NodeGpus> = self.ledger.gpus(node);
        match state.read::<Gradient>(fgd::NAME) {
            Some(gradient) => gradient.step(fgd::cpu_left(node), &gpus).map(|step| step.places),
            None => self.args.gpu.places(need, &gpus.left, pod, self.drawn),
        }
    }
}

impl Reserve for GpuShare {
    fn reserve(&self, state: &mut CycleState, pod: &PodInfo, node: &str) -> Result<(), Rejection> {
        let Some(Wanted { need, nodes }) = state.read::<Wanted>(NAME).cloned() else { return Ok(()) };
        let info = nodes.iter().find(|info| info.name() == node);
        let places = info.and_then(|info| self.choose(state, pod, &need, info));
        let places = places.ok_or_else(|| Rejection::unschedulable(NAME, TOO_LITTLE_LEFT))?;
        state.binding_annotations.insert(GPU_INDEX.to_owned(), places_text(&places));
        self.ledger.reserve(pod, node, places, &nodes);
        state.write(NAME, Wanted { need, nodes: Vec::new() });
        Ok(())
    }

    fn unreserve(&self, state: &CycleState, pod: &PodInfo, node: &str) {
        if state.read::<Wanted>(NAME).is_some() {
            self.ledger.unreserve(pod, node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Nodes, gpu_pod, gpus};
    use component_helpers::gpu_sharing::{GPU_MILLI, GPU_MODEL};
    use scheduling_framework::fixture::info;
    use serde_json::json;

    /// A node has two GPUs. Each row is a pod with its thousandths and the places that it gets.
    #[test]
    fn pods_share_gpus() {
        let nodes = Nodes::of(&[("n", gpus(2, "T4"))]);
        for (choice, expected) in [
            ("Tightest", ["0", "0", "1", "none", "1", "none"]),
            ("Loosest", ["0", "1", "1", "none", "0", "none"]),
            ("First", ["0", "0", "1", "none", "1", "none"]),
        ] {
            let mut cluster = nodes.cluster("GpuShare", &json!({"gpu": choice}));
            let needs = [(1, 600), (1, 300), (1, 700), (1, 600), (1, 200), (2, 200)];
            let places = needs.iter().enumerate().map(|(at, (count, milli))| {
                let pod = gpu_pod(&format!("pod-{at}"), "0", *count, *milli);
                cluster.places(pod).unwrap_or_else(|_| "none".to_owned())
            });
            let places: Vec<String> = places.collect();
            assert_eq!(places, expected, "{choice}");
        }
    }

    #[test]
    fn several_gpus_are_different_ones() {
        let mut cluster = Nodes::of(&[("n", gpus(4, "T4"))]).cluster("GpuShare", &json!({}));
        assert_eq!(cluster.places(gpu_pod("a", "0", 1, 400)), Ok("0".to_owned()));
        assert_eq!(cluster.places(gpu_pod("b", "0", 2, 600)), Ok("0-1".to_owned()));
        let full = "0/1 nodes are available: 1 node(s) had too few GPUs with enough left.";
        let refused = cluster.places(gpu_pod("c", "0", 3, 500)).unwrap_err();
        assert!(refused.starts_with(full), "two have 1000 left, and one has 400: {refused}");
        assert_eq!(cluster.places(gpu_pod("d", "0", 2, 1000)), Ok("2-3".to_owned()));
        // What a pod leaves behind is free again.
        cluster.remove("b");
        assert_eq!(cluster.places(gpu_pod("e", "0", 1, 500)), Ok("0".to_owned()));
    }

    #[test]
    fn a_binding_that_fails_frees_the_gpu() {
        let mut cluster = Nodes::of(&[("n", gpus(1, ""))]).cluster("GpuShare", &json!({}));
        assert_eq!(cluster.places(gpu_pod("a", "0", 1, 700)), Ok("0".to_owned()));
        assert!(cluster.places(gpu_pod("b", "0", 1, 700)).is_err());
        cluster.unreserve("a");
        assert_eq!(cluster.places(gpu_pod("b", "0", 1, 700)), Ok("0".to_owned()));
    }

    #[test]
    fn models_and_annotations() {
        let mut cluster = Nodes::of(&[("p", gpus(1, "P100")), ("t", gpus(1, "T4"))]).cluster("GpuShare", &json!({}));
        let with = |name: &str, key: &str, value: &str| {
            let mut pod = gpu_pod(name, "0", 1, 400);
            pod["metadata"]["annotations"][key] = json!(value);
            pod
        };
        assert_eq!(cluster.node_of(with("a", GPU_MODEL, "V100|T4")), "t");
        assert_eq!(cluster.node_of(with("b", GPU_MODEL, "P100")), "p");
        let refused = cluster.places(with("c", GPU_MODEL, "V100")).unwrap_err();
        assert!(refused.starts_with(&format!("0/2 nodes are available: 2 {WRONG_MODEL}.")), "{refused}");
        let refused = cluster.places(with("d", GPU_MILLI, "many")).unwrap_err();
        assert!(refused.contains(r#"annotation alibabacloud.com/gpu-milli: "many" is no number"#), "{refused}");
        // A pod without GPUs is none of this plugin's business.
        let plain = info(scheduling_framework::fixture::pod("e", "1", json!({})));
        let (plugin, mut state) =
            (GpuShare { args: GpuShareArgs::default(), ledger: Arc::default(), drawn: 0 }, CycleState::default());
        let result = plugin.pre_filter(&mut state, &plain, &Snapshot::default()).unwrap();
        assert!(matches!(result, PreFilterResult::Skip));
        assert_eq!(plugin.reserve(&mut state, &plain, "n"), Ok(()));
        assert!(state.binding_annotations.is_empty());
    }
}
