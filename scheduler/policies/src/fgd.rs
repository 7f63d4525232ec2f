//! `FGD`, fragmentation gradient descent: a pod goes to the node, and there to the GPU, where it adds least to the
//! fragmentation of GPUs. From "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent"
//! (USENIX ATC 2023).
//!
//! ```text
//! score(n) = −Δ(n)        with Δ of `gradient.rs`
//! ```
//!
//! The workload whose tasks can or cannot use a rest is `tasks` of the arguments. Without it, it is counted from the pods that
//! the nodes have and the pod itself; then pods that never fit are not known. `GpuShare` takes the GPU that was found here.
//!
//! The paper's own simulator rounds scores to whole numbers by a sigmoid, so that nodes with a small difference are equal. Here
//! they are not.

use crate::best_first::best_first;
use crate::gradient::Gradient;
use crate::ledger::{Ledger, task};
use crate::quantity;
use component_helpers::gpu_sharing::{GpuNeed, MAX_GPUS, Popularity, Task, WHOLE};
use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{CycleState, FeasibleNodes, Plugin, PreFilter, PreFilterResult, Rejection, Score};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

pub const NAME: &str = "FGD";

/// Parts of a thousandth of a GPU that a score counts.
const PARTS: f64 = 1e6;

/// Arguments of the plugin.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FgdArgs {
    /// Kinds of pods of the workload.
    tasks: Vec<TaskArgs>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct TaskArgs {
    cpu: Option<Value>,
    gpu_count: u32,
    /// Thousandths of each GPU; 1000 if absent.
    gpu_milli: Option<u32>,
    /// Models that will do; all if empty.
    gpu_models: Vec<String>,
    /// Share of this kind among the pods; 1 if absent.
    weight: Option<f64>,
}

impl TaskArgs {
    fn read(self, path: &str) -> Result<(Task, f64), String> {
        let Self { cpu, gpu_count: count, gpu_milli, gpu_models: models, weight } = self;
        let weight = weight.unwrap_or(1.0);
        if weight.is_nan() || weight <= 0.0 {
            return Err(format!("{path}.weight: must be greater than zero"));
        }
        let milli = gpu_milli.unwrap_or(WHOLE);
        if !(1..=WHOLE).contains(&milli) {
            return Err(format!("{path}.gpuMilli: must be between 1 and {WHOLE}"));
        }
        if count > MAX_GPUS {
            return Err(format!("{path}.gpuCount: must be at most {MAX_GPUS}"));
        }
        let cpu = cpu.as_ref().map(quantity).transpose();
        let cpu = cpu.map_err(|error| format!("{path}.cpu: {error}"))?;
        let milli_cpu = cpu.map_or(0, |quantity| quantity.milli_value());
        Ok((Task { milli_cpu, gpus: (count > 0).then_some(GpuNeed { count, milli, models }) }, weight))
    }
}

pub struct Fgd {
    ledger: Arc<Ledger>,
    /// `None` if the workload is counted in each cycle.
    popularity: Option<Popularity>,
}

impl Fgd {
    pub fn new(args: FgdArgs, ledger: Arc<Ledger>) -> Result<Self, String> {
        let tasks = args.tasks.into_iter().enumerate().map(|(at, task)| task.read(&format!("args.tasks[{at}]")));
        let tasks: Vec<(Task, f64)> = tasks.collect::<Result<_, _>>()?;
        Ok(Self { ledger, popularity: (!tasks.is_empty()).then(|| Popularity::weighted(tasks)) })
    }
}

/// Returns the CPU that pods leave of a node, in thousandths.
pub fn cpu_left(node: &NodeInfo) -> i64 {
    node.allocatable.milli_cpu.saturating_sub(node.requested.milli_cpu)
}

impl Plugin for Fgd {
    fn name(&self) -> &'static str {
        NAME
    }
}

/// A cycle with one node scores nothing, and yet the pod needs a GPU: so the gradient is found before nodes are filtered.
impl PreFilter for Fgd {
    fn pre_filter(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
    ) -> Result<PreFilterResult, Rejection> {
        let own = task(pod);
        let popularity = self.popularity.clone().unwrap_or_else(|| {
            let placed = snapshot.nodes().iter().flat_map(|node| &node.pods).map(|pod| task(pod));
            Popularity::of(placed.chain(iter::once(own.clone())))
        });
        state.write(NAME, Gradient { popularity, task: own });
        Ok(PreFilterResult::AllNodes)
    }
}

impl Score for Fgd {
    fn score(&self, state: &CycleState, _: &PodInfo, node: &NodeInfo, _: &Snapshot) -> i64 {
        let Some(gradient) = state.read::<Gradient>(NAME) else { return 0 };
        let step = gradient.step(cpu_left(node), &self.ledger.gpus(node));
        // A node without room passes the filters only in a profile without GpuShare.
        step.map_or(i64::MIN, |step| (-step.growth * PARTS).round() as i64)
    }

    /// Nodes with the same rests have the same score.
    fn score_all(&self, state: &CycleState, pod: &PodInfo, nodes: &FeasibleNodes<'_>, snapshot: &Snapshot) -> Vec<i64> {
        let mut known: BTreeMap<(i64, String, Vec<i64>), i64> = BTreeMap::new();
        let score = |node: &NodeInfo| {
            let gpus = self.ledger.gpus(node);
            let key = (cpu_left(node), gpus.model.clone(), gpus.left.clone());
            *known.entry(key).or_insert_with(|| self.score(state, pod, node, snapshot))
        };
        nodes.iter().map(score).collect()
    }

    fn normalize(&self, _: &CycleState, _: &PodInfo, _: &FeasibleNodes<'_>, scores: &mut [i64]) {
        best_first(scores);
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Nodes, gpu_pod, gpus};
    use serde_json::{Value, json};

    /// Half of the pods want a whole GPU, half of them 500 thousandths. Both nodes have 4 CPUs, which is enough.
    fn halves() -> Value {
        json!({"tasks": [{"gpuCount": 1}, {"gpuCount": 1, "gpuMilli": 500}]})
    }

    /// `one` has a GPU with 500 left, `two` a whole one. A pod with 500:
    /// - on `one`: F falls from ½ · 500 to 0, Δ = −250;
    /// - on `two`: F rises from 0 to ½ · 500, Δ = 250.
    #[test]
    fn a_share_goes_where_one_is_already() {
        let nodes = Nodes::of(&[("one", gpus(1, "")), ("two", gpus(1, ""))]);
        let mut cluster = nodes.cluster("FGD", &halves());
        cluster.place(gpu_pod("first", "0", 1, 500), "one", "0");
        assert_eq!(cluster.scores_of(gpu_pod("pod", "0", 1, 500)), [("one", 100), ("two", 0)]);
        assert_eq!(cluster.node_of(gpu_pod("pod", "0", 1, 500)), "one");
        assert_eq!(cluster.node_of(gpu_pod("whole", "0", 1, 1000)), "two");
    }

    /// A node has GPUs with 600 and 500 left. A pod with 500 goes to the second, though GpuShare alone would take the last
    /// place by `Loosest`: of the first, a rest of 100 would remain, which nobody can use.
    #[test]
    fn the_gpu_is_the_gradients() {
        let nodes = Nodes::of(&[("n", gpus(2, ""))]);
        let mut cluster = nodes.cluster_of(&[("FGD", halves()), ("GpuShare", json!({"gpu": "Loosest"}))]);
        cluster.place(gpu_pod("a", "0", 1, 400), "n", "0");
        cluster.place(gpu_pod("b", "0", 1, 500), "n", "1");
        assert_eq!(cluster.places(gpu_pod("c", "0", 1, 500)), Ok("1".to_owned()));
    }

    /// A node with GPUs and one without. A pod that wants no GPU takes CPU, without which no task could use the GPU.
    #[test]
    fn pods_without_gpus_stay_away_from_them() {
        let nodes = Nodes::of(&[("gpu", gpus(1, "")), ("plain", json!({}))]);
        let tasks = json!({"tasks": [{"cpu": "2", "gpuCount": 1}]});
        let mut cluster = nodes.cluster("FGD", &tasks);
        // On `gpu` 1 CPU would be left: Δ = 1000.
        assert_eq!(cluster.choose("a", "3"), "plain");
        assert_eq!(cluster.choose("b", "3"), "gpu", "plain is full");
    }

    /// Without `tasks`, the pods that are there are the workload.
    #[test]
    fn the_workload_is_counted() {
        let nodes = Nodes::of(&[("one", gpus(1, "")), ("two", gpus(1, ""))]);
        let mut cluster = nodes.cluster("FGD", &json!({}));
        cluster.place(gpu_pod("first", "0", 1, 500), "one", "0");
        // Known are two tasks with 500, which every rest serves: both nodes are equal.
        assert_eq!(cluster.scores_of(gpu_pod("pod", "0", 1, 500)), [("one", 100), ("two", 100)]);
        // A whole one, which is on `three`, makes three tasks. On `two` 500 would be left, so Δ = ⅓ · 500; on `one` nothing
        // would be, so Δ = −⅓ · 500.
        let nodes = Nodes::of(&[("one", gpus(1, "")), ("three", gpus(1, "")), ("two", gpus(1, ""))]);
        let mut cluster = nodes.cluster("FGD", &json!({}));
        cluster.place(gpu_pod("first", "0", 1, 500), "one", "0");
        cluster.place(gpu_pod("whole", "0", 1, 1000), "three", "0");
        assert_eq!(cluster.scores_of(gpu_pod("pod", "0", 1, 500)), [("one", 100), ("two", 0)]);
    }
}
