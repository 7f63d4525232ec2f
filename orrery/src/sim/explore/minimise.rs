//! `orrery sim minimise`: shrinks a scenario that breaks a promise.

use crate::sim::cpu;
use crate::sim::explore::points::Players;
use crate::sim::explore::replay;
use clap::Args;
use exploration::cpu_limit;
use exploration::pool::{self, Ended};
use serde_json::Value;
use simulator::explore::fault_scenario::FaultScenario;
use simulator::explore::minimise::{self, Play, Seen};
use std::cell::Cell;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

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
    /// How many runs at the same time [default: one for each core]. The result is the same for every number
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// CPU seconds after which a run counts as one that never ends
    #[arg(long, value_name = "N", default_value_t = cpu::SCENARIO, value_parser = clap::value_parser!(u64).range(1..))]
    pub cpu_seconds: u64,
}

/// Runs the sub-command. Each attempt is a process of its own.
pub fn run(options: &Options) -> Result<String, Vec<String>> {
    let scenario = replay::read(&options.scenario)?;
    let attempts = Attempts { players: Players::new(options.jobs, options.cpu_seconds)?, count: Cell::new(0) };
    let minimised = minimise::minimise(&scenario, &attempts);
    let minimised = minimised.map_err(|error| vec![format!("{}: {error}", options.scenario.display())])?;
    let out = options.out.clone().unwrap_or_else(|| options.scenario.with_extension("min.yaml"));
    let text = minimised.scenario.text();
    fs::write(&out, &text).map_err(|error| vec![format!("{}: {error}", out.display())])?;
    Ok(format!("after {} runs, {} is the least scenario that still fails:\n\n{text}", minimised.runs, out.display()))
}

/// Plays scenarios in processes of their own, and prints a line for each result.
struct Attempts {
    players: Players,
    count: Cell<usize>,
}

impl Attempts {
    /// Prints the result of the next attempt.
    fn say(&self, scenario: &FaultScenario, promise: Option<&str>) {
        let number = self.count.get() + 1;
        self.count.set(number);
        let faults = scenario.faults.as_ref().map_or(0, Vec::len);
        let steps = match &scenario.actions {
            Some(actions) => format!("{} actions", actions.len()),
            None => format!("{} steps", scenario.told().steps.len()),
        };
        let verdict = promise.unwrap_or("kept");
        // A reader such as `head` may have seen enough.
        let _ = writeln!(io::stdout(), "run {number}: {faults} faults, {steps}: {verdict}");
    }

    /// Returns the promise that a process says its scenario breaks. It is to end, too.
    fn promise(&self, ended: &Ended) -> io::Result<Option<String>> {
        if ended.is_out_of_cpu {
            return Ok(Some(cpu_limit::words(self.players.cpu_s)));
        }
        let result: Value = ended.printed().map_err(io::Error::other)?;
        Ok(result["promise"].as_str().map(str::to_owned))
    }
}

impl Play for Attempts {
    type Error = io::Error;

    fn play(&self, scenarios: &[FaultScenario], seen: &mut Seen<'_, io::Error>) -> io::Result<()> {
        let Players { program, jobs, .. } = &self.players;
        let orders = scenarios.iter().map(|scenario| self.players.order(scenario, None, false)).enumerate();
        pool::run_until(program, *jobs, orders, |place, ended| {
            let promise = self.promise(&ended)?;
            self.say(&scenarios[place], promise.as_deref());
            seen(place, promise)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simulator::plan::fault::{Drawn, Fault};
    use std::path::Path;
    use std::process::Command;

    /// Plays a scenario: a promise is broken if the faults 3 and 6 are there.
    const PROGRAM: &str = r#"#!/bin/sh
input=$(cat)
for number in 3 6; do
    case $input in *"\"number\":$number}"*) ;; *) echo '{"promise":null}'; exit;; esac
done
echo '{"promise":"nothing is lost"}'
"#;

    /// Writes the program by another process. One that this process has open cannot be run.
    fn write(path: &Path) {
        let write = r#"printf %s "$1" > "$2" && chmod +x "$2""#;
        let written = Command::new("sh").args(["-c", write, "sh", PROGRAM]).arg(path).status();
        assert!(written.unwrap().success());
    }

    #[test]
    fn the_least_scenario_is_the_same_for_every_number_of_jobs() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("player");
        write(&program);
        let drawn = |number| Fault { drawn: Some(Drawn { number, ..Drawn::default() }), ..Fault::default() };
        let failing = FaultScenario {
            faults: Some((1..=8).map(drawn).collect()),
            actions: Some(Vec::new()),
            ..FaultScenario::of_story("survive", 1)
        };
        let least = |jobs| {
            let players = Players { program: program.clone(), jobs, cpu_s: 60 };
            let attempts = Attempts { players, count: Cell::new(0) };
            let minimised = minimise::minimise(&failing, &attempts).unwrap();
            assert_eq!(attempts.count.get(), minimised.runs);
            (minimised.scenario, minimised.runs)
        };
        let one = least(1);
        assert_eq!(one.0.faults, Some(vec![drawn(3), drawn(6)]));
        for jobs in [2, 5] {
            assert_eq!(least(jobs), one, "{jobs} jobs");
        }
    }
}
