//! What the `main` of a component does: reads the command line, sets up logging, runs until the end.
//!
//! Corresponds to k8s.io/component-base/cli.

use crate::env::Env;
use crate::lifecycle::run_main;
use crate::logging;
use clap::{Args, CommandFactory, FromArgMatches, Parser};
use std::fmt::Display;
use std::future::Future;
use std::process::ExitCode;

/// How much is told on standard error.
#[derive(Args, Clone, Debug)]
pub struct LoggingOptions {
    /// How much is logged on standard error: 0 warnings, 2 what happens, 4 debugging
    #[arg(short = 'v', long = "v", global = true, default_value_t = 2, value_name = "LEVEL")]
    pub verbosity: u8,
}

/// The command line of one component.
#[derive(Parser)]
#[command(version)]
struct CommandLine<Config: Args> {
    #[command(flatten)]
    logging: LoggingOptions,
    #[command(flatten)]
    config: Config,
}

/// Runs the component of that name as this process.
pub fn main<Config, F, E>(name: &'static str, about: &'static str, run: impl FnOnce(Config, Env) -> F) -> ExitCode
where
    Config: Args,
    F: Future<Output = Result<(), E>>,
    E: Display,
{
    let command = CommandLine::<Config>::command().name(name).about(about);
    let matches = command.get_matches();
    let CommandLine { logging, config } =
        CommandLine::<Config>::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    logging::init(logging.verbosity);
    run_main(name, |env| run(config, env))
}
