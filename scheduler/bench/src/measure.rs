//! One measurement: the pods of a workload, one after the other.

use crate::check::{Checker, Step};
use crate::cluster::{Attempted, BenchCluster, decoded};
use crate::objects::StoredObjects;
use crate::workload::{self, Workload};
use component_base::env::Env;
use proto::kinds::api::core::v1::Pod;
use scheduling_framework::pod_info::PodInfo;
use serde::Serialize;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Serialize)]
pub struct Measured {
    pub workload: String,
    pub nodes: usize,
    pub pods: usize,
    pub seconds: f64,
    pub pods_per_s: f64,
    pub attempt_p50_us: f64,
    pub attempt_p99_us: f64,
    pub attempt_max_us: f64,
    /// The same of attempts that have evicted pods; `None` without any. The figures above have such an attempt and the next one
    /// together.
    pub preempting: Option<Preempting>,
    /// CPU of the cycles alone, without the making of objects.
    pub cpu_us_per_pod: f64,
    /// Memory of the cycles, without the reference evaluator.
    pub peak_mib: f64,
    /// Number of pods that have a node now.
    pub placed: usize,
    /// Decisions that the reference evaluator has judged.
    pub checked: usize,
    /// Decisions with which it does not agree.
    pub errors: usize,
    /// Hash of all decisions in their order.
    pub placements: String,
}

#[derive(Debug, Serialize)]
pub struct Preempting {
    pub attempts: usize,
    pub p50_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
}

/// Number of tries of a pod that preempts others: one that evicts them, and one that takes their place.
const MAX_TRIES: usize = 2;

pub fn run(workload: Workload, nodes: usize, pods: usize, checks: usize) -> Measured {
    let env = Env::system();
    let all_nodes = || (0..nodes).map(workload::node);
    let stored = StoredObjects::of(workload, nodes, pods);
    let mut cluster = BenchCluster::new(all_nodes(), &stored);
    for (pod, node) in workload.present(nodes) {
        cluster.place(pod, &workload::name_of_node(node));
    }
    let (mut latencies, mut cpu, mut hash) = (Vec::with_capacity(pods), Duration::ZERO, Fnv::default());
    let (mut placed, mut preempting, mut steps) = (0, Vec::new(), Vec::new());
    let every = (checks > 0).then(|| pods.div_ceil(checks).max(1));
    for number in 0..pods {
        let pod = workload.pod(number, nodes, pods);
        let info = Arc::new(PodInfo::new(Arc::new(decoded::<Pod>(pod.clone()))));
        let is_judged = every.is_some_and(|every| number % every == every - 1);
        let (mut placement, mut whole) = ((None, None), Duration::ZERO);
        for _ in 0..MAX_TRIES {
            let (cpu_before, before) = (cpu_time(), env.now());
            let attempted = cluster.attempt(&info, is_judged);
            let took = env.now().duration_since(before);
            whole += took;
            cpu += cpu_time().saturating_sub(cpu_before);
            match attempted {
                Attempted::Placed { node, feasible } => placement = (Some(node), feasible),
                Attempted::Failed => {}
                Attempted::Preempting(victims) => {
                    preempting.push(took);
                    for victim in victims {
                        hash.add(victim.uid());
                        steps.push(Step::Evicted(victim.uid().to_owned()));
                    }
                    continue;
                }
            }
            break;
        }
        latencies.push(whole);
        let (node, feasible) = placement;
        hash.add(node.as_deref().unwrap_or("none"));
        steps.push(Step::Decided {
            number,
            node: node.clone(),
            feasible: is_judged.then(|| feasible.unwrap_or_default()),
        });
        if let Some(node) = node {
            placed += 1;
            cluster.bound(pod, node);
        }
    }
    let peak_mib = peak_mib();
    let judge = || {
        let mut checker = Checker::new(all_nodes(), &stored);
        workload.present(nodes).into_iter().for_each(|(pod, node)| checker.place(pod, &workload::name_of_node(node)));
        checker.judge(steps, |number| workload.pod(number, nodes, pods), |number| cluster.name(number))
    };
    let (checked, errors) = if checks > 0 { judge() } else { (0, 0) };
    latencies.sort_unstable();
    preempting.sort_unstable();
    let took: Duration = latencies.iter().sum();
    let us = |time: Duration| (time.as_secs_f64() * 1e7).round() / 10.0;
    let at = |all: &[Duration], percent: usize| us(all[(all.len() - 1) * percent / 100]);
    let of_preempting = |all: &[Duration]| Preempting {
        attempts: all.len(),
        p50_us: at(all, 50),
        p99_us: at(all, 99),
        max_us: at(all, 100),
    };
    Measured {
        workload: format!("{workload:?}"),
        nodes,
        pods,
        seconds: took.as_secs_f64(),
        pods_per_s: (pods as f64 / took.as_secs_f64()).round(),
        attempt_p50_us: at(&latencies, 50),
        attempt_p99_us: at(&latencies, 99),
        attempt_max_us: at(&latencies, 100),
        preempting: (!preempting.is_empty()).then(|| of_preempting(&preempting)),
        cpu_us_per_pod: us(cpu) / pods.max(1) as f64,
        peak_mib,
        placed,
        checked,
        errors,
        placements: format!("{:016x}", hash.0),
    }
}

/// The hash FNV-1a.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, text: &str) {
        for byte in text.bytes().chain([b'\n']) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

/// Returns the CPU time of this process, whose only thread this is. Linux only; zero elsewhere.
fn cpu_time() -> Duration {
    let text = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

fn peak_mib() -> f64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    (kib.unwrap_or(0.0) / 102.4).round() / 10.0
}
