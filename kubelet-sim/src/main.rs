//! The kubelet-sim program.
//!
//! Corresponds to cmd/kubelet.

use clap::Parser;
use std::process::ExitCode;

/// Simulated nodes, many in one process
#[derive(Parser)]
#[command(name = "kubelet-sim", version)]
struct Command {
    /// How much is logged on standard error: 0 warnings, 2 what happens, 4 debugging
    #[arg(short = 'v', long = "v", default_value_t = 2, value_name = "LEVEL")]
    verbosity: u8,
    #[command(flatten)]
    config: kubelet_sim::Config,
}

fn main() -> ExitCode {
    let Command { verbosity, config } = Command::parse();
    component_base::logging::init(verbosity);
    component_base::lifecycle::run_main("kubelet-sim", |env| kubelet_sim::run(config, env))
}
