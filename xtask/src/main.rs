//! `cargo xtask`: the project's own automation.

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "xtask", about = "Orrery's own automation")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check the hygiene of the tree; the same check is a test of this crate
    Tidy {
        /// Rewrite the generated part of docs/deviations.md
        #[arg(long)]
        fix: bool,
    },
    /// Measure the servers; one line of JSON per measurement
    Bench(xtask::bench::Options),
    /// Run the simulated cluster under many seeds with faults; SEED=… replays one
    Soak(xtask::soak::Options),
}

fn main() -> ExitCode {
    let root = xtask::root();
    let complaints = match Arguments::parse().task {
        Task::Tidy { fix } => {
            let fixed = if fix { xtask::deviations::write(&root) } else { Ok(()) };
            fixed.map_or_else(|error| vec![error], |()| xtask::tidy(&root))
        }
        Task::Bench(options) => {
            xtask::bench::run(&options, &root).map_or_else(|error| vec![error.to_string()], |()| Vec::new())
        }
        Task::Soak(options) => xtask::soak::run(&options, &root).unwrap_or_else(|error| vec![error.to_string()]),
    };
    for complaint in &complaints {
        eprintln!("xtask: {complaint}");
    }
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
