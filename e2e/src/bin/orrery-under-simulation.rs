//! Runs one simulation; prints its log, its virtual time, and a report if it violated an invariant.

use simulator::Run;
use simulator::explore::{self, stories};
use simulator::plan::crash_point::CrashPoint;
use simulator::scenario::SCENARIOS;
use std::io::Write;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(run) = run(&arguments) else {
        let names: Vec<&str> =
            SCENARIOS.iter().map(|scenario| scenario.name).chain(stories::STORIES.map(|(name, _)| name)).collect();
        eprintln!("usage: orrery-under-simulation {} SEED [before-N|after-N]", names.join("|"));
        return ExitCode::FAILURE;
    };
    let mut out = std::io::stdout().lock();
    let took = format!("{} s of virtual time", run.virtual_time.as_secs());
    for line in run.log.iter().map(ToString::to_string).chain([took]) {
        if writeln!(out, "{line}").is_err() {
            return ExitCode::FAILURE;
        }
    }
    if let Err(report) = run.outcome {
        eprintln!("{report}\nreplay it: orrery-under-simulation {}", arguments.join(" "));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Runs a scenario under a seed. A story of `explore` may have a crash point.
fn run(arguments: &[String]) -> Option<Run<()>> {
    let [name, seed, rest @ ..] = arguments else { return None };
    let seed: u64 = seed.parse().ok()?;
    let point: Option<CrashPoint> = rest.first().map(|text| text.parse()).transpose().ok()?;
    match SCENARIOS.iter().find(|scenario| scenario.name == name) {
        Some(scenario) => point.is_none().then(|| (scenario.run)(seed.into())),
        None => explore::play_story(name, seed, point),
    }
}
