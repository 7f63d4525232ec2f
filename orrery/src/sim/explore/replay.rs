//! `orrery sim explore --scenario FILE`: plays a scenario once, and says whether it fails in the same way.

use crate::sim::explore::play;
use simulator::explore::fault_scenario::FaultScenario;
use std::fs;
use std::path::Path;

/// Reads a scenario, or returns every mistake with its file.
pub fn read(path: &Path) -> Result<FaultScenario, Vec<String>> {
    let text = fs::read_to_string(path).map_err(|error| vec![format!("{}: {error}", path.display())])?;
    let lines = |problem: &experiments::Problem| format!("{}: {problem}", path.display());
    FaultScenario::read(&text).map_err(|problems| problems.iter().map(lines).collect())
}

/// Plays the scenario of a file. With a folder, the log goes there if a promise is broken.
pub fn run(path: &Path, folder: Option<&Path>) -> Result<String, Vec<String>> {
    let scenario = read(path)?;
    let run = play::play(&scenario);
    let happened = run.trace.reached.join("\n");
    let Err(report) = &run.outcome else {
        return match &scenario.promise {
            Some(promise) => Err(vec![format!("every promise was kept, and {promise:?} was to be broken")]),
            None => Ok(format!("{happened}\nevery promise was kept").trim_start().to_owned()),
        };
    };
    if let Some(folder) = folder {
        let written = play::write(folder, &scenario, &run, report);
        written.map_err(|error| vec![format!("{}: {error}", folder.display())])?;
    }
    let found = run.trace.promise.clone().unwrap_or_default();
    let verdict = match &scenario.promise {
        Some(promise) if *promise != found => format!("another promise was broken: {found:?} instead of {promise:?}"),
        _ => format!("a promise was broken: {found}"),
    };
    Err(vec![happened, report.trim_end().to_owned(), verdict].into_iter().filter(|line| !line.is_empty()).collect())
}
