//! Scheduling cycles without an API server: `bench-cycles` in a process of its own for each workload and size.

use super::measurement::{Latency, Measurement};
use super::process::{Usage, Used};
use super::{Bench, Error};
use crate::release;
use serde::Deserialize;
use std::process::{Command, Stdio};
use std::time::Duration;

const WORKLOADS: [&str; 14] = [
    "basic",
    "node-affinity",
    "affinity",
    "anti-affinity",
    "preferred-affinity",
    "preferred-anti-affinity",
    "spread",
    "preferred-spread",
    "preemption",
    "preemption-spread",
    "volumes",
    "devices",
    "unschedulable",
    "mixed",
];
const NODES: [usize; 4] = [500, 1000, 5000, 50_000];
const PODS: usize = 2000;
/// Pods of workloads that try every node for each pod.
const PODS_THAT_FAIL: usize = 300;

/// The line that `bench-cycles` prints.
#[derive(Deserialize)]
struct Line {
    pods: u64,
    seconds: f64,
    attempt_p50_us: f64,
    attempt_p99_us: f64,
    attempt_max_us: f64,
    preempting: Option<Preempting>,
    cpu_us_per_pod: f64,
    peak_mib: f64,
    errors: u64,
}

/// The attempts that have evicted pods.
#[derive(Deserialize)]
struct Preempting {
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
}

pub async fn run(bench: &Bench) -> Result<Vec<Measurement>, Error> {
    let program = release::build(&bench.root, "scheduler-bench", "bench-cycles").map_err(Error::Failed)?;
    let mut measured = Vec::new();
    for nodes in NODES.map(|nodes| bench.count(nodes)) {
        for workload in WORKLOADS {
            let tries_all = matches!(workload, "preemption" | "preemption-spread" | "unschedulable");
            let pods = bench.count(if tries_all { PODS_THAT_FAIL } else { PODS });
            let output = Command::new(&program)
                .arg(workload)
                .args(["--nodes", &nodes.to_string(), "--pods", &pods.to_string()])
                .stderr(Stdio::inherit())
                .output()
                .map_err(|error| Error::Io(program.display().to_string(), error))?;
            let line: Line = serde_json::from_slice(&output.stdout)
                .map_err(|error| Error::Failed(format!("{workload} over {nodes} nodes, {}: {error}", output.status)))?;
            let what = format!("cycles of {pods} pods over {nodes} nodes, {workload}");
            measured.push(line.measurement(what));
        }
    }
    Ok(measured)
}

impl Line {
    fn measurement(&self, what: String) -> Measurement {
        let used = |cpu_s: f64| Used { cpu_s, rss_mib: self.peak_mib, peak_mib: self.peak_mib };
        let usage = |cpu_s: f64| Usage::from([("scheduler".to_owned(), used(cpu_s))]);
        let cpu_s = self.cpu_us_per_pod * self.pods as f64 / 1e6;
        let took = Duration::from_secs_f64(self.seconds);
        let (before, after) = (usage(0.0), usage(cpu_s));
        let latency =
            |p50: f64, p99: f64, max: f64| Latency { p50_ms: p50 / 1e3, p99_ms: p99 / 1e3, max_ms: max / 1e3 };
        let of_all = latency(self.attempt_p50_us, self.attempt_p99_us, self.attempt_max_us);
        let preempting = self.preempting.as_ref().map(|it| latency(it.p50_us, it.p99_us, it.max_us));
        let measurement = Measurement::new("cycles", what, "memory", self.pods, took, (&before, &after));
        Measurement { latency: Some(of_all), preempting, ..measurement.errors(self.errors) }
    }
}
