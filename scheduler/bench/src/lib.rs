//! Measures scheduling cycles without an API server: objects in memory, the default profile, one process for each workload.
//!
//! `bench-cycles WORKLOAD --nodes N --pods N` prints one line of JSON. `placements` is a hash of all decisions: two builds
//! that print the same hash have made the same decisions. A sample of the decisions is judged by the reference evaluator.
//! Corresponds to test/integration/scheduler_perf.

pub mod workload;
mod objects;
mod cluster;
mod check;
mod measure;

use clap::Parser;
use std::process::ExitCode;
use workload::Workload;

#[derive(Parser, Debug)]
pub struct Options {
    /// What the pods ask for
    #[arg(value_enum)]
    workload: Workload,
    #[arg(long, default_value_t = 1000)]
    nodes: usize,
    #[arg(long, default_value_t = 2000)]
    pods: usize,
    /// Number of decisions that the reference evaluator judges, choice among the nodes included; one takes 10 ms with 5,000 nodes
    #[arg(long, default_value_t = 200)]
    checks: usize,
}

pub fn main() -> ExitCode {
    let Options { workload, nodes, pods, checks } = Options::parse();
    let measured = measure::run(workload, nodes, pods, checks);
    println!("{}", serde_json::json!(measured));
    if measured.errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
