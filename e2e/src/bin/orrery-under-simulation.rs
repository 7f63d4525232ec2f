//! One rollout of 20 replicas on 3 nodes under virtual time; prints the run's log.

use e2e::simulation::{self, Simulation};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(seed) = std::env::args().nth(1).and_then(|text| text.parse().ok()) else {
        eprintln!("usage: orrery-under-simulation SEED");
        return ExitCode::FAILURE;
    };
    let log = Simulation::whole(seed, 3, async |simulation| {
        simulation::roll_out(simulation, "web", 20).await;
        simulation.log()
    });
    let mut out = std::io::stdout().lock();
    for line in log {
        if writeln!(out, "{line}").is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
