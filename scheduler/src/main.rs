//! The `scheduler` program.
//!
//! Corresponds to cmd/kube-scheduler.

use std::process::ExitCode;

fn main() -> ExitCode {
    component_base::command::main_on(scheduler::THREADS, "scheduler", "Assigns pods to nodes", scheduler::run)
}
