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
    /// Check the hygiene of the tree; the same check is a test of this crate.
    Tidy {
        /// Rewrite the generated part of docs/deviations.md.
        #[arg(long)]
        fix: bool,
    },
}

fn main() -> ExitCode {
    let Task::Tidy { fix } = Arguments::parse().task;
    let root = xtask::root();
    if fix && let Err(error) = xtask::deviations::write(&root) {
        eprintln!("xtask: {error}");
        return ExitCode::FAILURE;
    }
    let complaints = xtask::tidy(&root);
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
