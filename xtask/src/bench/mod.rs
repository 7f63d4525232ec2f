//! `cargo xtask bench`: what an operation costs the servers, measured from outside over TLS.
//!
//! Each scenario starts servers of its own on loopback, drives them, and prints one line of JSON per measurement:
//! throughput, latency, CPU seconds and memory of every server process, the store included. Rates depend on what else
//! the machine does; CPU per operation hardly does. Nothing here asserts anything about time.

mod measurement;
mod process;
mod servers;
mod load;
mod objects;
mod verbs;
mod access;
mod credentials;
mod histogram;
mod scrape;
mod lists;
mod watches;
mod pod_events;
mod placements;
mod rollout;
mod schedule;
mod cycles;
mod fleet;
mod nodes;
mod controllers;
mod start_up;
mod simulated;
mod page;

use crate::release;
use clap::Args;
use component_base::env::Env;
use futures::future::BoxFuture;
use measurement::Measurement;
use parking_lot::Mutex;
use schedule::rows::ROWS;
use std::path::{Path, PathBuf};

/// What is measured, and how much of it.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The `orrery` program to measure; without it, the release build of this tree
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// The simulation to measure; without it, the release build of this tree
    #[arg(long, value_name = "FILE")]
    simulation: Option<PathBuf>,
    /// Run only these scenarios; without any, all
    #[arg(value_name = "SCENARIO")]
    only: Vec<String>,
    /// Run only these scenarios of `schedule`, by scheduler_perf's names; without any, all
    #[arg(long = "scenario", value_name = "NAME")]
    rows: Vec<String>,
    /// Numbers of nodes in the scenarios of `schedule`
    #[arg(long, value_delimiter = ',', default_values_t = [1000])]
    nodes: Vec<usize>,
    /// Pods of each kind in the scenarios of `schedule`; without it, as many for each node as scheduler_perf has
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pods: Option<u32>,
    /// Divide every count by this, for a quick look
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    scale: u32,
    /// Write the tables of docs/performance.md anew
    #[arg(long)]
    write: bool,
}

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
    #[error(transparent)]
    Client(#[from] client::Error),
    #[error(transparent)]
    Pki(#[from] component_base::pki::PkiError),
    #[error(transparent)]
    Kubeconfig(#[from] component_base::kubeconfig::KubeconfigError),
    #[error("{0}")]
    Failed(String),
}

/// What every scenario is given.
pub struct Bench {
    env: Env,
    program: PathBuf,
    simulation: Option<PathBuf>,
    root: PathBuf,
    scale: u32,
    rows: Vec<String>,
    nodes: Vec<usize>,
    pods: Option<usize>,
    measured: Mutex<Vec<Measurement>>,
}

impl Bench {
    /// Prints a measurement and keeps it. A scenario that takes long records its measurements as they come.
    fn record(&self, measurement: Measurement) {
        println!("{}", serde_json::json!(measurement));
        self.measured.lock().push(measurement);
    }

    fn simulation(&self) -> Result<PathBuf, Error> {
        let built = || release::build(&self.root, "e2e", "orrery-under-simulation").map_err(Error::Failed);
        self.simulation.clone().map_or_else(built, Ok)
    }

    /// A count of a scenario, made smaller by `--scale`.
    fn count(&self, count: usize) -> usize {
        (count / self.scale as usize).max(1)
    }
}

struct Scenario {
    name: &'static str,
    run: for<'a> fn(&'a Bench) -> BoxFuture<'a, Result<Vec<Measurement>, Error>>,
}

/// Everything that is measured, in this order.
const SCENARIOS: &[Scenario] = &[
    Scenario { name: "start", run: |bench| Box::pin(start_up::run(bench)) },
    Scenario { name: "objects", run: |bench| Box::pin(objects::run(bench)) },
    Scenario { name: "api", run: |bench| Box::pin(verbs::run(bench)) },
    Scenario { name: "access", run: |bench| Box::pin(access::run(bench)) },
    Scenario { name: "lists", run: |bench| Box::pin(lists::run(bench)) },
    Scenario { name: "watches", run: |bench| Box::pin(watches::run(bench)) },
    Scenario { name: "rollout", run: |bench| Box::pin(rollout::run(bench)) },
    Scenario { name: "schedule", run: |bench| Box::pin(schedule::run(bench)) },
    Scenario { name: "cycles", run: |bench| Box::pin(cycles::run(bench)) },
    Scenario { name: "controllers", run: |bench| Box::pin(controllers::run(bench)) },
    Scenario { name: "resident", run: |bench| Box::pin(controllers::resident(bench)) },
    Scenario { name: "nodes", run: |bench| Box::pin(nodes::run(bench)) },
    Scenario { name: "simulated", run: |bench| Box::pin(simulated::run(bench)) },
];

/// Runs the scenarios and prints their measurements as they come.
pub fn run(options: &Options, root: &Path) -> Result<(), Error> {
    for name in &options.only {
        if !SCENARIOS.iter().any(|scenario| scenario.name == name) {
            let known: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
            return Err(Error::Failed(format!("no scenario {name:?}; there are {}", known.join(", "))));
        }
    }
    for name in &options.rows {
        if !ROWS.iter().any(|row| row.name == name) {
            let known: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
            return Err(Error::Failed(format!("no scenario {name:?} of schedule; there are {}", known.join(", "))));
        }
    }
    let program = match &options.program {
        Some(program) => program.clone(),
        None => release::build(root, "orrery", "orrery").map_err(Error::Failed)?,
    };
    let runtime = tokio::runtime::Runtime::new().map_err(|error| Error::Io("runtime".to_owned(), error))?;
    let bench = Bench {
        env: Env::system(),
        program,
        simulation: options.simulation.clone(),
        root: root.to_owned(),
        scale: options.scale,
        rows: options.rows.clone(),
        nodes: options.nodes.clone(),
        pods: options.pods.map(|count| count as usize),
        measured: Mutex::default(),
    };
    runtime.block_on(async {
        for scenario in SCENARIOS {
            if !options.only.is_empty() && !options.only.iter().any(|name| name == scenario.name) {
                continue;
            }
            (scenario.run)(&bench).await?.into_iter().for_each(|measurement| bench.record(measurement));
        }
        Ok::<_, Error>(())
    })?;
    if options.write {
        page::write(root, &bench.measured.lock()).map_err(|error| Error::Io(page::PATH.to_owned(), error))?;
    }
    Ok(())
}
