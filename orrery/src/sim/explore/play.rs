//! Plays one scenario in this process, and prints its result in one line of JSON. `explore` starts a process for each.

use crate::sim::cpu::CpuSeconds;
use clap::Args;
use component_base::tls;
use serde_json::{Value, json};
use simulator::Run;
use simulator::drawn_list::{Draw, Listener};
use simulator::explore;
use simulator::explore::fault_scenario::FaultScenario;
use simulator::plan::fault::Fault;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Options of the hidden `orrery sim play`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Folder for the scenario, the log and the report if a promise is broken
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the points of the run as well
    #[arg(long)]
    pub points: bool,
    /// Print the report of a broken promise as well
    #[arg(long)]
    pub report: bool,
    #[command(flatten)]
    pub cpu: CpuSeconds,
}

/// Returns the file of a scenario below a folder.
pub fn file_in(folder: &Path) -> PathBuf {
    folder.join("scenario.yaml")
}

/// Reads a scenario from standard input, as JSON, and plays it. The last line has the result. A line before it for each fault and action
/// that the seed draws says what an endless run was about.
pub fn run(options: &Options) -> Result<String, Vec<String>> {
    options.cpu.apply()?;
    let mut text = String::new();
    let read = io::stdin().read_to_string(&mut text);
    read.map_err(|error| vec![error.to_string()])?;
    let scenario =
        FaultScenario::read(&text).map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    // A certificate needs a provider of cryptography, also in memory.
    tls::install_provider();
    let run = explore::play_aloud(&scenario, Listener(Arc::new(|draw| say(&json!(draw)))));
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
    if let (true, Err(report)) = (options.report, &run.outcome) {
        result["report"] = json!(report);
    }
    if options.points {
        result["points"] = json!(run.trace.points);
    }
    Ok(result.to_string())
}

fn say(line: &Value) {
    let _ = writeln!(io::stdout(), "{line}"); // without a reader the run goes on
}

/// Writes a scenario that has had no end, with what it did as its promise. `printed` are the lines of its process.
pub fn write_endless(
    folder: &Path,
    scenario: &FaultScenario,
    printed: &str,
    promise: Option<String>,
) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let scenario = FaultScenario { promise, ..scenario.clone() };
    fs::write(file_in(folder), named(scenario, printed).text())
}

/// Returns the scenario with the faults and actions that its seed has drawn, after the lines that say so.
fn named(mut scenario: FaultScenario, printed: &str) -> FaultScenario {
    if !scenario.has_drawn_faults() {
        return scenario;
    }
    let (mut faults, mut actions) = (BTreeMap::new(), BTreeMap::new());
    for draw in printed.lines().filter_map(|line| serde_json::from_str(line).ok()) {
        match draw {
            Draw::Fault(drawn) => faults.insert(drawn.number, drawn),
            Draw::Action(drawn) => actions.insert(drawn.number, drawn),
        };
    }
    let fault = |drawn| Fault { drawn: Some(drawn), ..Fault::default() };
    scenario.faults.get_or_insert_with(|| faults.into_values().map(fault).collect());
    scenario.actions.get_or_insert_with(|| actions.into_values().collect());
    scenario
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

#[cfg(test)]
mod tests {
    use super::*;
    use simulator::plan::fault::Drawn;

    /// The process was ended in the middle of its last line.
    #[test]
    fn an_endless_run_has_said_what_its_seed_drew() {
        let printed = "\
{\"fault\":{\"number\":1,\"at\":\"5.000s\"}}
{\"action\":{\"number\":1,\"at\":\"6.000s\"}}
{\"fault\":{\"number\":1,\"at\":\"5.000s\",\"what\":\"a storm\"}}
{\"fault\":{\"number\":2,";
        let scenario = named(FaultScenario::of_story("survive", 7), printed);
        let drawn =
            |at: &str, what: Option<&str>| Drawn { number: 1, at: Some(at.to_owned()), what: what.map(str::to_owned) };
        let fault = Fault { drawn: Some(drawn("5.000s", Some("a storm"))), ..Fault::default() };
        assert_eq!(
            (scenario.faults.clone(), scenario.actions.clone()),
            (Some(vec![fault]), Some(vec![drawn("6.000s", None)]))
        );
        assert_eq!(named(scenario.clone(), "").faults, scenario.faults, "what is left is played again");
        assert_eq!(named(FaultScenario::of_story("job", 1), printed).faults, None, "a story of steps draws nothing");
    }
}
