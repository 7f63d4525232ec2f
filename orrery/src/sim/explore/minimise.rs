//! `orrery sim minimise`: shrinks a scenario that breaks a promise.

use crate::sim::explore::{points, replay};
use clap::Args;
use exploration::pool;
use serde_json::Value;
use simulator::explore::fault_scenario::FaultScenario;
use simulator::explore::minimise;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Options of `orrery sim minimise`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  orrery sim minimise results/explore/job/seed-1/crash-after-7/scenario.yaml
  orrery sim explore --scenario results/explore/job/seed-1/crash-after-7/scenario.min.yaml")]
pub struct Options {
    /// Scenario that breaks a promise, as `orrery sim explore` leaves it
    pub scenario: PathBuf,
    /// File to write [default: the same name with .min.yaml]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Runs the sub-command. Each attempt is a process of its own.
pub fn run(options: &Options) -> Result<String, Vec<String>> {
    let scenario = replay::read(&options.scenario)?;
    let program = std::env::current_exe().map_err(|error| vec![error.to_string()])?;
    let mut attempts = 0;
    let minimised = minimise::minimise(&scenario, |scenario| {
        let promise = promise_of(&program, scenario)?;
        attempts += 1;
        let faults = scenario.faults.as_ref().map_or(0, Vec::len);
        let steps = match &scenario.actions {
            Some(actions) => format!("{} actions", actions.len()),
            None => format!("{} steps", scenario.told().steps.len()),
        };
        let verdict = promise.as_deref().unwrap_or("kept");
        let _ = writeln!(io::stdout(), "run {attempts}: {faults} faults, {steps}: {verdict}");
        Ok::<_, io::Error>(promise)
    });
    let minimised = minimised.map_err(|error| vec![format!("{}: {error}", options.scenario.display())])?;
    let out = options.out.clone().unwrap_or_else(|| options.scenario.with_extension("min.yaml"));
    let text = minimised.scenario.text();
    fs::write(&out, &text).map_err(|error| vec![format!("{}: {error}", out.display())])?;
    Ok(format!("after {} runs, {} is the least scenario that still fails:\n\n{text}", minimised.runs, out.display()))
}

/// Plays a scenario in a process of its own, and returns the promise that it breaks.
fn promise_of(program: &Path, scenario: &FaultScenario) -> io::Result<Option<String>> {
    let ended = pool::run_one(program, &points::order(scenario, None, false))?;
    let result: Value = ended.printed().map_err(io::Error::other)?;
    Ok(result["promise"].as_str().map(str::to_owned))
}
