//! The `controller-manager` program.
//!
//! Corresponds to cmd/kube-controller-manager.

use std::process::ExitCode;

fn main() -> ExitCode {
    component_base::command::main("controller-manager", "The controllers of the cluster", controller_manager::run)
}
