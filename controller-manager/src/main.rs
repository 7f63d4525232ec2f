//! The `controller-manager` program.

use clap::Parser;
use std::process::ExitCode;

/// The controllers of the cluster
#[derive(Parser)]
#[command(name = "controller-manager", version)]
struct Command {
    /// How much is logged on standard error: 0 warnings, 2 what happens, 4 debugging
    #[arg(short = 'v', long = "v", default_value_t = 2, value_name = "LEVEL")]
    verbosity: u8,
    #[command(flatten)]
    config: controller_manager::Config,
}

fn main() -> ExitCode {
    let Command { verbosity, config } = Command::parse();
    component_base::logging::init(verbosity);
    component_base::lifecycle::run_main("controller-manager", |env| controller_manager::run(config, env))
}
