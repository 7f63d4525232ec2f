//! Runs one simulation; prints its log, its virtual time, and a report if it violated an invariant.

use e2e::simulation::scenario::SCENARIOS;
use std::io::Write;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let scenario = arguments.next().and_then(|name| SCENARIOS.iter().find(|scenario| scenario.name == name));
    let (Some(scenario), Some(seed)) = (scenario, arguments.next().and_then(|text| text.parse().ok())) else {
        let names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        eprintln!("usage: orrery-under-simulation {} SEED", names.join("|"));
        return ExitCode::FAILURE;
    };
    let run = (scenario.run)(seed);
    let mut out = std::io::stdout().lock();
    let took = format!("{} s of virtual time", run.virtual_time.as_secs());
    for line in run.log.iter().chain([&took]) {
        if writeln!(out, "{line}").is_err() {
            return ExitCode::FAILURE;
        }
    }
    if let Err(report) = run.outcome {
        eprintln!("{report}\nreplay it: SEED={seed} cargo xtask soak --scenario {}", scenario.name);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
