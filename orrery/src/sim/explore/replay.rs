//! `orrery sim explore --scenario FILE`: plays a scenario once, and says which of its faults have happened and whether it fails in
//! the same way.

use crate::sim::explore::play;
use crate::sim::explore::points::Players;
use exploration::cpu_limit;
use exploration::pool;
use serde::Deserialize;
use simulator::explore::fault_scenario::FaultScenario;
use std::fs;
use std::path::Path;

/// Reads a scenario, or returns every mistake with its file.
pub fn read(path: &Path) -> Result<FaultScenario, Vec<String>> {
    let text = fs::read_to_string(path).map_err(|error| vec![format!("{}: {error}", path.display())])?;
    let lines = |problem: &experiments::Problem| format!("{}: {problem}", path.display());
    FaultScenario::read(&text).map_err(|problems| problems.iter().map(lines).collect())
}

/// What a process says of the scenario that it has played.
#[derive(Debug, Default, Deserialize)]
struct Played {
    #[serde(default)]
    promise: Option<String>,
    reached: Vec<String>,
    #[serde(default)]
    report: String,
}

/// Plays the scenario of a file in a process of its own, which ends at the limit of its CPU time. With a folder, the log goes there if
/// a promise is broken. `logs` prints what the components log.
pub fn run(players: &Players, path: &Path, folder: Option<&Path>, logs: bool) -> Result<String, Vec<String>> {
    let scenario = read(path)?;
    let mut order = players.order(&scenario, folder, false);
    order.arguments.push("--report".to_owned());
    let ended = pool::run_one(&players.program, &order).map_err(|error| vec![error.to_string()])?;
    if logs {
        eprint!("{}", ended.stderr);
    }
    if ended.is_out_of_cpu {
        let promise = Some(cpu_limit::words(players.cpu_s));
        let written = folder.map(|folder| play::write_endless(folder, &scenario, &ended.stdout, promise.clone()));
        written.transpose().map_err(|error| vec![error.to_string()])?;
        return verdict(&scenario, Played { promise, ..Played::default() }, String::new());
    }
    let played: Played = ended.printed().map_err(|why| vec![format!("the run had no result: {why}")])?;
    let happened = happened(&scenario, &played.reached).join("\n");
    verdict(&scenario, played, happened)
}

/// Says whether the run has broken the promise of the scenario.
fn verdict(scenario: &FaultScenario, played: Played, happened: String) -> Result<String, Vec<String>> {
    let Some(found) = played.promise else {
        return match &scenario.promise {
            Some(promise) => Err(vec![format!("every promise was kept, and {promise:?} was to be broken")]),
            None => Ok(format!("{happened}\nevery promise was kept").trim_start().to_owned()),
        };
    };
    let verdict = match &scenario.promise {
        Some(promise) if *promise != found => format!("another promise was broken: {found:?} instead of {promise:?}"),
        _ => format!("a promise was broken: {found}"),
    };
    let lines = [happened, played.report.trim_end().to_owned(), verdict];
    Err(lines.into_iter().filter(|line| !line.is_empty()).collect())
}

/// Returns a line for each fault that has happened, and for each that has not. A moment that never comes is mostly a mistake in
/// the scenario.
fn happened(scenario: &FaultScenario, reached: &[String]) -> Vec<String> {
    let faults = scenario.faults.iter().flatten();
    let planned = faults.filter(|fault| fault.drawn.is_none()).map(ToString::to_string);
    let missed = planned.filter(|fault| !reached.iter().any(|line| line.starts_with(fault.as_str())));
    reached.iter().cloned().chain(missed.map(|fault| format!("never happened: {fault}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_that_never_happen_are_named() {
        let scenario = FaultScenario::read(
            "
apiVersion: orrery.dev/v1alpha1
kind: FaultScenario
story: job
faults:
- crash: {component: scheduler, moment: before, write: create pods/binding, occurrence: 1}
- swap: {component: scheduler, watch: pods, occurrence: 90}
",
        );
        let crash = "scheduler crashes before its create pods/binding number 1: create /api/v1/pods";
        let reached = [crash.to_owned()];
        let missed = "never happened: delivery 90 of the watch of scheduler on pods comes after the next one";
        assert_eq!(happened(&scenario.unwrap(), &reached), [crash, missed]);
    }
}
