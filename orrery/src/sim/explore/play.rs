//! Plays one scenario in this process, and prints its result in one line of JSON. `explore` starts a process for each.

use crate::sim::cpu::CpuSeconds;
use clap::Args;
use component_base::tls;
use serde_json::json;
use simulator::Run;
use simulator::explore;
use simulator::explore::fault_scenario::FaultScenario;
use simulator::plan::fault::Fault;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Options of the hidden `orrery sim play`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Folder for the scenario, the log and the report if a promise is broken
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the points of the run as well
    #[arg(long)]
    pub points: bool,
    #[command(flatten)]
    pub cpu: CpuSeconds,
}

/// Returns the file of a scenario below a folder.
pub fn file_in(folder: &Path) -> PathBuf {
    folder.join("scenario.yaml")
}

/// Reads a scenario from standard input, as JSON, and plays it.
pub fn run(options: &Options) -> Result<String, Vec<String>> {
    options.cpu.apply()?;
    let mut text = String::new();
    let read = io::stdin().read_to_string(&mut text);
    read.map_err(|error| vec![error.to_string()])?;
    let scenario =
        FaultScenario::read(&text).map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let run = play(&scenario);
    if let (Some(folder), Err(report)) = (&options.out, &run.outcome) {
        write(folder, &scenario, &run, report).map_err(|error| vec![format!("{}: {error}", folder.display())])?;
    }
    let outcome = if run.outcome.is_ok() { "kept" } else { "broken" };
    let mut result = json!({
        "outcome": outcome,
        "promise": run.trace.promise,
        "reached": run.trace.reached,
        "virtualSeconds": run.virtual_time.as_secs(),
    });
    if options.points {
        result["points"] = json!(run.trace.points);
    }
    Ok(result.to_string())
}

/// Plays a scenario. A certificate needs a provider of cryptography, also in memory.
pub fn play(scenario: &FaultScenario) -> Run<()> {
    tls::install_provider();
    explore::play(scenario)
}

/// Writes a scenario that has had no end, with what it did as its promise.
pub fn write_scenario(folder: &Path, scenario: &str, promise: Option<String>) -> io::Result<()> {
    let scenario = FaultScenario::read(scenario).map_err(|_| io::Error::other("the scenario is not well-formed"))?;
    fs::create_dir_all(folder)?;
    fs::write(file_in(folder), FaultScenario { promise, ..scenario }.text())
}

/// Writes the log and the report of a run, and a scenario that names its faults, and the actions of the user if the seed draws them.
pub fn write(folder: &Path, scenario: &FaultScenario, run: &Run<()>, report: &str) -> io::Result<()> {
    let drawn = run.trace.drawn.iter().map(|drawn| Fault { drawn: Some(drawn.clone()), ..Fault::default() });
    let (mut faults, mut actions) = (scenario.faults.clone(), scenario.actions.clone());
    if scenario.has_drawn_faults() {
        faults.get_or_insert_with(|| drawn.collect());
        actions.get_or_insert_with(|| run.trace.actions.clone());
    }
    let replayed = FaultScenario { faults, actions, promise: run.trace.promise.clone(), ..scenario.clone() };
    fs::create_dir_all(folder)?;
    // The same rows, for people and for programs.
    fs::write(folder.join("run.log"), run.log.iter().map(|row| format!("{row}\n")).collect::<String>())?;
    fs::write(folder.join("run.jsonl"), run.log.iter().map(|row| row.json() + "\n").collect::<String>())?;
    fs::write(folder.join("report.txt"), report)?;
    fs::write(file_in(folder), replayed.text())
}
