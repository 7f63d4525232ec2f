//! The API server as a process of its own.

use clap::Parser;
use component_base::lifecycle::run_main;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "apiserver", about = "Serves the Kubernetes API")]
struct Command {
    #[command(flatten)]
    config: apiserver::Config,
}

fn main() -> ExitCode {
    component_base::logging::init(0);
    let command = Command::parse();
    run_main("apiserver", |env| apiserver::run(command.config, env))
}
