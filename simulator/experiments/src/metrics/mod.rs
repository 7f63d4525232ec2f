//! Metrics of a run, from its records alone. `docs/experiments.md` has the formulas, and `tests.rs` a run worked by hand.

pub mod fragmentation;
pub mod rows;
mod service;
pub(crate) mod replay;
mod fairness;
#[cfg(test)]
mod tests;

pub use crate::metric_names::{Direction, NAMES};
pub use rows::{NodeRow, PodRow, Sample};

use crate::record::Record;
use crate::statistics::{mean, quantile, sorted};
use crate::units::{micros_of, rounded, seconds};
use replay::{GPUS, MEASURED, Replay};
use std::collections::BTreeMap;
use std::time::Duration;

/// Shortest duration that bounded slowdown divides by, so that tiny pods do not decide it.
const BOUND_US: u64 = 10_000_000;

/// Values by name. A metric that has no meaning in a run, such as that of GPUs without any, is absent.
pub type Values = BTreeMap<String, f64>;

/// Everything that is computed from a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    pub values: Values,
    pub pods: Vec<PodRow>,
    pub nodes: Vec<NodeRow>,
    pub samples: Vec<Sample>,
    /// Requests that the API server has answered, by verb and resource.
    pub requests: BTreeMap<String, u64>,
}

/// Computes everything from the records of a run.
pub fn summarise(records: &[Record], sample_every: Duration) -> Summary {
    let replay = Replay::run(records, micros_of(sample_every));
    let mut values = Values::new();
    resources(&replay, &mut values);
    times(&replay, &mut values);
    gangs(&replay, &mut values);
    loads(&replay, &mut values);
    counts(&replay, &mut values);
    fairness::add(&replay, &mut values);
    values.values_mut().for_each(|value| *value = rounded(*value));
    let nodes = nodes(&replay);
    let Replay { pods, samples, requests, .. } = replay;
    Summary { values, pods: pods.into_values().collect(), nodes, samples, requests }
}

fn set(values: &mut Values, name: &str, value: f64) {
    debug_assert!(NAMES.iter().any(|(known, _, _)| *known == name), "{name} is not in the list");
    values.insert(name.to_owned(), value);
}

fn resources(replay: &Replay, values: &mut Values) {
    let integrals = &replay.integrals;
    for resource in MEASURED {
        let of = |integral: &BTreeMap<&'static str, f64>| integral.get(resource).copied().unwrap_or_default();
        let allocatable = of(&integrals.allocatable);
        if allocatable > 0.0 {
            set(values, &format!("allocation.{resource}"), of(&integrals.allocated) / allocatable);
            set(values, &format!("allocation-peak.{resource}"), of(&integrals.peak_allocation));
            set(values, &format!("utilisation.{resource}"), of(&integrals.running) / allocatable);
        }
    }
    let of_gpus = |integral: &BTreeMap<&'static str, f64>| integral.get(GPUS).copied().unwrap_or_default();
    let left = of_gpus(&integrals.allocatable) - of_gpus(&integrals.allocated);
    if left > 0.0 {
        set(values, "fragmentation.gpu", integrals.fragment / left);
    }
    let end_s = seconds(replay.end_us());
    if integrals.energy_j > 0.0 && end_s > 0.0 {
        set(values, "power.mean-w", integrals.energy_j / end_s);
        set(values, "energy.kwh", integrals.energy_j / 3.6e6);
    }
    if integrals.price > 0.0 {
        set(values, "price", integrals.price);
    }
}

fn distribution(values: &mut Values, name: &str, numbers: Vec<f64>) {
    if numbers.is_empty() {
        return;
    }
    let numbers = sorted(numbers);
    set(values, &format!("{name}.mean"), mean(&numbers));
    for (suffix, q) in [("p50", 0.5), ("p95", 0.95), ("p99", 0.99)] {
        set(values, &format!("{name}.{suffix}"), quantile(&numbers, q));
    }
}

fn times(replay: &Replay, values: &mut Values) {
    let pods = || replay.pods.values();
    // A pod that was never bound has waited until it was deleted, or until the end.
    let waited_until_us = |pod: &PodRow| pod.scheduled_us.or(pod.deleted_us).unwrap_or(replay.end_us());
    let pending = pods().map(|pod| seconds(waited_until_us(pod) - pod.created_us));
    distribution(values, "pending", pending.collect());
    distribution(values, "decision-latency", replay.decision_latencies_us.iter().map(|us| seconds(*us)).collect());
    let completed = || pods().filter_map(|pod| Some((pod, pod.jct_us()?)));
    distribution(values, "jct", completed().map(|(_, jct_us)| seconds(jct_us)).collect());
    let with_duration = || completed().filter_map(|(pod, jct_us)| Some((jct_us as f64, pod.created.duration_us?)));
    let plain = with_duration().filter(|(_, duration_us)| *duration_us > 0);
    distribution(values, "slowdown", plain.map(|(jct_us, duration_us)| jct_us / duration_us as f64).collect());
    let bounded = with_duration().map(|(jct_us, duration_us)| (jct_us / duration_us.max(BOUND_US) as f64).max(1.0));
    distribution(values, "bounded-slowdown", bounded.collect());
    let first_us = pods().map(|pod| pod.created_us).min();
    let last_us = pods().filter_map(|pod| pod.finished_us).max();
    if let (Some(first_us), Some(last_us)) = (first_us, last_us) {
        set(values, "makespan", seconds(last_us - first_us));
    }
}

/// A gang waits from the creation of its first pod until its last pod has started, and holds resources in vain from the time
/// when its first pod is bound until its last one is. A gang of which a pod never starts is not counted.
fn gangs(replay: &Replay, values: &mut Values) {
    let mut gangs: BTreeMap<&str, Vec<&PodRow>> = BTreeMap::new();
    for pod in replay.pods.values() {
        if let Some(gang) = &pod.created.gang {
            gangs.entry(gang).or_default().push(pod);
        }
    }
    let (mut waits, mut holds) = (Vec::new(), Vec::new());
    for pods in gangs.values() {
        let started: Option<Vec<u64>> = pods.iter().map(|pod| pod.started_us).collect();
        let bound: Vec<u64> = pods.iter().filter_map(|pod| pod.scheduled_us).collect();
        let created_us = pods.iter().map(|pod| pod.created_us).min().unwrap_or_default();
        let Some(last_us) = started.and_then(|started| started.into_iter().max()) else { continue };
        waits.push(seconds(last_us - created_us));
        let span_us = bound.iter().max().zip(bound.iter().min()).map_or(0, |(last, first)| last - first);
        holds.push(seconds(span_us));
    }
    distribution(values, "gang-wait", waits);
    distribution(values, "gang-hold", holds);
}

/// Deployments: how many pods serve their loads, and how much of these is beyond what the pods request.
fn loads(replay: &Replay, values: &mut Values) {
    let (integrals, end_s) = (&replay.integrals, seconds(replay.end_us()));
    if replay.services.is_empty() || end_s == 0.0 {
        return;
    }
    set(values, "replicas.mean", integrals.replicas_s / end_s);
    set(values, "replicas.max", integrals.most_replicas as f64);
    if integrals.load > 0.0 {
        set(values, "load-excess", integrals.load_excess / integrals.load);
    }
}

fn counts(replay: &Replay, values: &mut Values) {
    let count = |is: &dyn Fn(&PodRow) -> bool| replay.pods.values().filter(|pod| is(pod)).count() as f64;
    set(values, "pods", replay.pods.len() as f64);
    set(values, "pods-finished", count(&|pod| pod.finished_us.is_some()));
    set(values, "pods-failed", count(&|pod| pod.finished_us.is_some() && !pod.succeeded));
    set(values, "pods-never-scheduled", count(&|pod| pod.scheduled_us.is_none()));
    set(values, "attempts-failed", replay.failed_attempts as f64);
    set(values, "preemptions", replay.preemptions as f64);
    set(values, "evictions", replay.evictions as f64);
    if !replay.requests.is_empty() {
        let requests = replay.requests.values().sum::<u64>() as f64;
        set(values, "requests", requests);
        if !replay.pods.is_empty() {
            set(values, "requests-per-pod", requests / replay.pods.len() as f64);
        }
    }
    let bound = count(&|pod| pod.placements > 0);
    let placements: u64 = replay.pods.values().map(|pod| pod.placements).sum();
    if bound > 0.0 {
        set(values, "churn", (placements as f64 - bound) / bound);
    }
}

fn nodes(replay: &Replay) -> Vec<NodeRow> {
    let mut pods: BTreeMap<&str, u64> = BTreeMap::new();
    for pod in replay.pods.values().filter(|pod| pod.placements > 0) {
        *pods.entry(&pod.last_node).or_default() += 1;
    }
    let row = |(name, (added, allocated_s, present_s)): (&String, &(crate::record::NodeAdded, f64, f64))| NodeRow {
        node: name.clone(),
        group: added.group.clone(),
        gpu_model: added.gpu_model.clone(),
        gpu_count: added.gpu_count,
        cpu_allocation: if *present_s > 0.0 { allocated_s / present_s } else { 0.0 },
        present_s: *present_s,
        price: added.price_per_hour * present_s / 3600.0,
        pods: pods.get(name.as_str()).copied().unwrap_or_default(),
    };
    replay.node_rows.iter().map(row).collect()
}
