//! `orrery sim explore --scenario FILE`: plays a scenario once, and says which of its faults have happened and whether it fails in
//! the same way.

use crate::sim::explore::play;
use simulator::Trace;
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
    let happened = happened(&scenario, &run.trace).join("\n");
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

/// Returns a line for each fault that has happened, and for each that has not. A moment that never comes is mostly a mistake in
/// the scenario.
fn happened(scenario: &FaultScenario, trace: &Trace) -> Vec<String> {
    let faults = scenario.faults.iter().flatten();
    let planned = faults.filter(|fault| fault.drawn.is_none()).map(ToString::to_string);
    let missed = planned.filter(|fault| !trace.reached.iter().any(|line| line.starts_with(fault.as_str())));
    trace.reached.iter().cloned().chain(missed.map(|fault| format!("never happened: {fault}"))).collect()
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
        let trace = Trace { reached: vec![crash.to_owned()], ..Trace::default() };
        let missed = "never happened: delivery 90 of the watch of scheduler on pods comes after the next one";
        assert_eq!(happened(&scenario.unwrap(), &trace), [crash, missed]);
    }
}
