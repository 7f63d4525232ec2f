//! `orrery sim step`: lets another program decide where pods go, one decision at a time. It is what the Python package
//! `orrery_gym` runs.
//!
//! The first line of standard output is JSON, the description of a block (`experiments::learning::layout`). Then each request on
//! standard input has a command for every environment, and is answered with a block for every environment. Numbers are little-endian:
//!
//! ```text
//! request: (operation: i64, value: i64) x environments    STEP action | RESET seed | SKIP anything
//! answer:  block of float32 x environments
//! ```
//!
//! An action is the index of a node, or the number of nodes to let the pod wait. The end of standard input ends the process.

mod choice;
mod environment;
mod request;

use crate::sim::cell::end_at_a_panic;
use crate::sim::study_file::StudyFile;
use clap::Args;
use component_base::tls;
use environment::{Environment, Scene};
use experiments::study::Depth;
use std::io::{self, BufReader, Write};
use std::path::PathBuf;

/// Most environments of a process: each has a cluster of its own.
const MAX_ENVIRONMENTS: i64 = 1024;

/// Options of `orrery sim step`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// File with the study; its depth is taken to be `scheduler`
    pub study: PathBuf,
    /// Name of the cluster, if the study has several
    #[arg(long)]
    pub cluster: Option<String>,
    /// Name of the workload, if the study has several
    #[arg(long)]
    pub workload: Option<String>,
    /// Name of the case of faults, if the study has several
    #[arg(long)]
    pub faults: Option<String>,
    /// Name of the policy whose filters and queue hold, if the study has several; its scores have no effect
    #[arg(long)]
    pub policy: Option<String>,
    /// Number of environments that are stepped together
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=MAX_ENVIRONMENTS))]
    pub environments: u16,
}

/// Serves requests until standard input ends.
pub fn run(options: &Options) -> Result<String, Vec<String>> {
    end_at_a_panic();
    tls::install_provider();
    let mut file = StudyFile::read(&options.study, None)?;
    file.study.depth = Depth::Scheduler;
    let problems = file.problems();
    if !problems.is_empty() {
        return Err(problems);
    }
    let cell = choice::cell(&file.study, options).map_err(|errors| {
        errors.into_iter().map(|error| format!("{}: {error}", file.path.display())).collect::<Vec<_>>()
    })?;
    let scene = Scene::new(&file, cell)?;
    let mut environments: Vec<Environment> = (0..options.environments).map(|_| Environment::default()).collect();
    let line = |why: String| vec![why];
    write(format!("{}\n", scene.description(environments.len())).as_bytes()).map_err(line)?;
    let mut input = BufReader::new(io::stdin());
    while let Some(commands) = request::read(&mut input, environments.len()).map_err(line)? {
        let mut answer = Vec::new();
        for (environment, command) in environments.iter_mut().zip(commands) {
            environment.obey(&scene, command)?;
            environment.write(&scene, &mut answer);
        }
        write(&answer).map_err(line)?;
    }
    Ok(String::new())
}

fn write(bytes: &[u8]) -> Result<(), String> {
    let mut output = io::stdout().lock();
    let written = output.write_all(bytes).and_then(|()| output.flush());
    written.map_err(|error| format!("standard output: {error}"))
}
