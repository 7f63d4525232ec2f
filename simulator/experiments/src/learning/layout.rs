//! `Layout`: the numbers of one step as a block of little-endian `float32`, which numpy reads without a copy.
//!
//! Amounts are parts of the largest node's, so that nodes and pods compare. A block has the same size in each step of a study:
//!
//! ```text
//! reward terminated truncated time | nodes: N x 2R | pod: R | queue: 4 | mask: N + 1 | metrics: M
//! ```

use crate::amounts::{Amounts, CPU, GPU_COUNT, MEMORY, PODS};
use crate::cluster::Machine;
use crate::metric_names::NAMES;
use crate::metrics::Values;
use component_helpers::scheduling::requests::Resources;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Version of the block and of the description.
pub const VERSION: u32 = 1;

/// Pods that a node takes if the study does not say it, as for a kubelet.
const DEFAULT_PODS: i64 = 110;

/// What the numbers of the field `queue` are.
const QUEUE: [&str; 4] = ["pending", "waited_s", "priority", "time_s"];

/// Numbers of a block, of a node and of a pod for one study.
#[derive(Clone, Debug)]
pub struct Layout {
    nodes: Vec<String>,
    rows: BTreeMap<String, usize>,
    resources: Vec<String>,
    /// Largest amount of each resource on a node.
    scales: Vec<f64>,
}

/// A node at a decision.
#[derive(Clone, Copy, Debug)]
pub struct NodeState<'a> {
    pub name: &'a str,
    pub allocatable: &'a Resources,
    pub requested: &'a Resources,
}

/// The pod of a decision.
#[derive(Clone, Copy, Debug)]
pub struct PodState<'a> {
    pub requests: &'a Resources,
    pub priority: i32,
    pub waited_s: f64,
}

/// What a step has led to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub reward: f64,
    /// The workload has ended.
    pub is_terminated: bool,
    /// The study's `until` has come.
    pub is_truncated: bool,
    pub time_s: f64,
    /// Pods that wait, the one of the decision among them.
    pub pending: u64,
}

impl Layout {
    pub fn new(machines: &[Machine]) -> Self {
        let mut largest = Amounts::from([(CPU.to_owned(), 0), (MEMORY.to_owned(), 0), (PODS.to_owned(), 0)]);
        for machine in machines {
            let own_pods = (PODS.to_owned(), DEFAULT_PODS);
            let pods = (!machine.allocatable.contains_key(PODS)).then_some(own_pods);
            // No pod requests a number of GPUs by this name.
            let own = machine.allocatable.iter().filter(|(name, _)| *name != GPU_COUNT);
            for (resource, amount) in own.map(|(name, amount)| (name.clone(), *amount)).chain(pods) {
                let most = largest.entry(resource).or_default();
                *most = amount.max(*most);
            }
        }
        let nodes: BTreeSet<String> = machines.iter().map(|machine| machine.name.clone()).collect();
        let nodes: Vec<String> = nodes.into_iter().collect();
        Self {
            rows: nodes.iter().enumerate().map(|(row, name)| (name.clone(), row)).collect(),
            nodes,
            scales: largest.values().map(|amount| (*amount).max(1) as f64).collect(),
            resources: largest.into_keys().collect(),
        }
    }

    /// Returns the nodes in the order of actions.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// Returns the row of a node; `None` if the study does not have it.
    pub fn row_of(&self, node: &str) -> Option<usize> {
        self.rows.get(node).copied()
    }

    /// Returns the number of cells of a node.
    pub fn width(&self) -> usize {
        2 * self.resources.len()
    }

    /// Fills the cells of a node.
    pub fn fill(&self, cells: &mut [f32], node: NodeState<'_>) {
        let (free, whole) = cells.split_at_mut(self.resources.len());
        for (index, resource) in self.resources.iter().enumerate() {
            let allocatable = node.allocatable.get(resource);
            free[index] = self.part(index, allocatable - node.requested.get(resource));
            whole[index] = self.part(index, allocatable);
        }
    }

    /// Returns name and shape of each field of a block, in order.
    pub fn fields(&self) -> Vec<(&'static str, Vec<usize>)> {
        let (nodes, resources) = (self.nodes.len(), self.resources.len());
        vec![
            ("reward", vec![]),
            ("terminated", vec![]),
            ("truncated", vec![]),
            ("time", vec![]),
            ("nodes", vec![nodes, self.width()]),
            ("pod", vec![resources]),
            ("queue", vec![QUEUE.len()]),
            ("mask", vec![nodes + 1]),
            ("metrics", vec![NAMES.len()]),
        ]
    }

    /// Returns what a reader of blocks has to know.
    pub fn description(&self) -> Value {
        let fields: Vec<Value> =
            self.fields().into_iter().map(|(name, shape)| json!({"name": name, "shape": shape})).collect();
        json!({
            "version": VERSION,
            "fields": fields,
            "nodes": self.nodes,
            "resources": self.resources,
            "scales": self.scales,
            "queue": QUEUE,
            "metrics": NAMES.iter().map(|(name, _, _)| *name).collect::<Vec<_>>(),
        })
    }

    /// Appends the block of a decision: the cells of a `NodeTable`, and the rows of the nodes on which the pod fits.
    pub fn write_decision(
        &self,
        to: &mut Vec<u8>,
        outcome: Outcome,
        cells: &[f32],
        feasible: impl Iterator<Item = usize>,
        pod: PodState<'_>,
    ) {
        let mut mask = vec![0.0; self.nodes.len() + 1];
        feasible.for_each(|row| mask[row] = 1.0);
        mask[self.nodes.len()] = 1.0;
        head(to, outcome);
        put(to, cells.iter().copied());
        put(to, self.resources.iter().enumerate().map(|(index, name)| self.part(index, pod.requests.get(name))));
        put(to, [outcome.pending as f32, pod.waited_s as f32, pod.priority as f32, outcome.time_s as f32]);
        put(to, mask);
        put(to, [f32::NAN; NAMES.len()]);
    }

    /// Appends the block of an episode's end, with all of its metrics. A metric that it lacks is not a number.
    pub fn write_end(&self, to: &mut Vec<u8>, outcome: Outcome, metrics: &Values) {
        head(to, outcome);
        put(to, vec![0.0; self.nodes.len() * self.width() + self.resources.len()]);
        put(to, [outcome.pending as f32, 0.0, 0.0, outcome.time_s as f32]);
        put(to, vec![0.0; self.nodes.len() + 1]);
        put(to, NAMES.iter().map(|(name, _, _)| metrics.get(*name).copied().unwrap_or(f64::NAN) as f32));
    }

    fn part(&self, resource: usize, amount: i64) -> f32 {
        (amount as f64 / self.scales[resource]).clamp(0.0, 1.0) as f32
    }
}

fn head(to: &mut Vec<u8>, outcome: Outcome) {
    let flag = |is: bool| f32::from(u8::from(is));
    let (reward, time_s) = (outcome.reward as f32, outcome.time_s as f32);
    put(to, [reward, flag(outcome.is_terminated), flag(outcome.is_truncated), time_s]);
}

fn put(to: &mut Vec<u8>, numbers: impl IntoIterator<Item = f32>) {
    for number in numbers {
        to.extend(number.to_le_bytes());
    }
}
