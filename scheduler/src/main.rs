//! The `scheduler` program.

use clap::Parser;
use std::process::ExitCode;

/// Assigns pods to nodes
#[derive(Parser)]
#[command(name = "scheduler", version)]
struct Command {
    /// How much is logged on standard error: 0 warnings, 2 what happens, 4 debugging
    #[arg(short = 'v', long = "v", default_value_t = 2, value_name = "LEVEL")]
    verbosity: u8,
    #[command(flatten)]
    config: scheduler::Config,
}

fn main() -> ExitCode {
    let Command { verbosity, config } = Command::parse();
    component_base::logging::init(verbosity);
    component_base::lifecycle::run_main("scheduler", |env| scheduler::run(config, env))
}
