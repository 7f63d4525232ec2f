//! The `refrigerator` program.
//!
//! Corresponds to the main function of k8s.io/sample-controller.

use std::process::ExitCode;

fn main() -> ExitCode {
    component_base::command::main(
        "refrigerator",
        "The controllers and the simulated parts of refrigerators",
        refrigerator::run,
    )
}
