//! The `main` of a component: reads the command line, sets up logging and runs the component.
//!
//! Corresponds to k8s.io/component-base/cli.

use crate::env::Env;
use crate::lifecycle::{Threads, run_main_on};
use crate::logging;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser};
use std::fmt::Display;
use std::future::Future;
use std::io::Write;
use std::process::ExitCode;

/// Exit code for an invalid command line.
const USAGE: u8 = 2;

/// Flags for the log on standard error.
#[derive(Args, Clone, Debug)]
pub struct LoggingOptions {
    /// How much is logged on standard error: 0 warnings, 2 what happens, 4 debugging
    // Deviation: `-v` is 2 where it is not given, and 0 for the originals: what klog writes at 0 is shown here at 2, and at 0
    // there are warnings alone.
    #[arg(short = 'v', long = "v", global = true, default_value_t = 2, value_name = "LEVEL", display_order = 1000)]
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

/// Runs the named component as this process.
pub fn main<Config, F, E>(name: &'static str, about: &'static str, run: impl FnOnce(Config, Env) -> F) -> ExitCode
where
    Config: Args,
    F: Future<Output = Result<(), E>>,
    E: Display,
{
    main_on(Threads::PerCore, name, about, run)
}

/// Runs the named component as this process, on so many threads.
pub fn main_on<Config, F, E>(
    threads: Threads,
    name: &'static str,
    about: &'static str,
    run: impl FnOnce(Config, Env) -> F,
) -> ExitCode
where
    Config: Args,
    F: Future<Output = Result<(), E>>,
    E: Display,
{
    match parse_as::<CommandLine<Config>>(CommandLine::<Config>::command().name(name).about(about)) {
        Err(code) => code,
        Ok(CommandLine { logging, config }) => {
            logging::init(logging.verbosity);
            run_main_on(threads, name, |env| run(config, env))
        }
    }
}

/// Returns the configuration that a component reads from these arguments, or one line of complaint.
pub fn config_of<Config: Args>(name: &'static str, arguments: &[String]) -> Result<Config, String> {
    let command = CommandLine::<Config>::command().name(name);
    let all = std::iter::once(name).chain(arguments.iter().map(String::as_str));
    let parsed =
        command.try_get_matches_from(all).and_then(|matches| CommandLine::<Config>::from_arg_matches(&matches));
    parsed.map(|line| line.config).map_err(|error| one_line(&error.to_string()))
}

/// Returns the command line of this process. After printing help or one line of complaint, returns the exit code instead.
pub fn parse<P: Parser>() -> Result<P, ExitCode> {
    parse_as(P::command())
}

fn parse_as<P: Parser>(mut command: clap::Command) -> Result<P, ExitCode> {
    let name = command.get_name().to_owned();
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    matches.and_then(|mut matches| P::from_arg_matches_mut(&mut matches)).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp => {
            // The output may be closed.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayVersion => {
            let _ = writeln!(std::io::stdout(), "{}", one_line(&error.to_string()));
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(USAGE)
        }
        _ => {
            eprintln!("{name}: {}", one_line(&error.to_string()));
            ExitCode::from(USAGE)
        }
    })
}

/// Joins clap's paragraphs into one line: the problem, then the advice.
fn one_line(text: &str) -> String {
    let mut line = String::new();
    for part in text.lines().map(str::trim).take_while(|part| !part.starts_with("Usage:")) {
        let part = part.trim_start_matches("error: ").trim_start_matches("tip: ");
        if part.is_empty() || part.starts_with("For more information") {
            continue;
        }
        if !line.is_empty() {
            line.push_str(if line.ends_with(':') { " " } else { "; " });
        }
        line.push_str(part);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Args)]
    struct Flags {
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..=100))]
        port: u16,
        #[arg(long)]
        store: Option<String>,
    }

    #[test]
    fn what_is_wrong_is_one_line() {
        for (arguments, expected) in [
            (&["--port=70000"][..], "invalid value '70000' for '--port <PORT>': 70000 is not in 1..=100"),
            (&["--port=1", "--sotre=x"], "unexpected argument '--sotre' found; a similar argument exists: '--store'"),
            (&[], "the following required arguments were not provided: --port <PORT>"),
            (&["--port=1", "extra"], "unexpected argument 'extra' found"),
        ] {
            let parsed = CommandLine::<Flags>::try_parse_from([&["test"], arguments].concat());
            let error = parsed.map(|line| line.config.port).unwrap_err();
            assert_eq!(one_line(&error.to_string()), expected);
        }
        let right = CommandLine::<Flags>::try_parse_from(["test", "--port=7", "-v", "4"]).unwrap();
        assert_eq!((right.config.port, right.config.store, right.logging.verbosity), (7, None, 4));
    }
}
