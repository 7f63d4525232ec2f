//! The `kubelet-sim` program.
//!
//! Corresponds to cmd/kubelet.

use std::process::ExitCode;

fn main() -> ExitCode {
    component_base::command::main("kubelet-sim", "Simulated nodes, many in one process", kubelet_sim::run)
}
