//! Compares the scheduler's decisions with those of the reference evaluator.
//!
//! `compare-scheduler scheduler SEED` draws a cluster and its history, and makes each decision twice. It prints a minimal
//! history on which both differ. `cargo xtask soak --scenario scheduler --seeds 10000` runs it under many seeds. The tests of
//! this crate have tables of rules, worked by hand from Kubernetes' documentation, and a small number of seeds.

#![allow(clippy::unwrap_used, reason = "what fails here fails a comparison")]

// What is drawn.
mod draw;
pub mod world;
pub mod history;

// What is compared.
pub mod both;
pub mod comparison;

#[cfg(test)]
mod tables;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

/// Compares one random history. The arguments are those of every simulation: a scenario and a seed.
pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seed = match arguments.as_slice() {
        [scenario, seed] if scenario == "scheduler" => seed.parse().ok(),
        _ => None,
    };
    let Some(seed) = seed else {
        eprintln!("usage: compare-scheduler scheduler SEED");
        return ExitCode::FAILURE;
    };
    match comparison::of_seed(seed) {
        Ok(decisions) => {
            println!("seed {seed}: {decisions} decisions are equal");
            ExitCode::SUCCESS
        }
        Err(difference) => {
            eprint!("{difference}");
            ExitCode::FAILURE
        }
    }
}
