//! `orrery sim`: scheduling studies and fault exploration in virtual time.
//!
//! A study is a file (`simulator/experiments/src/study/mod.rs`). Each of its cells runs in a child process, so that cells
//! run side by side and one that fails takes no other with it. Read first: `cell`, which runs one, and `run`.

pub mod study_file;
mod machine;
mod rehearsal;
pub mod gates;
pub mod policy;
pub mod prepared;
pub mod records;
mod cpu;
mod timings;
mod disk;
mod recorder;
mod door;
pub mod cell;
pub mod external;
pub mod results;
pub mod compare;
pub mod run;
pub mod import;
pub mod explore;
pub mod step;
pub mod replay;

use clap::{Args, Subcommand};
use component_base::lifecycle::run_main;
use experiments::study;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use study_file::StudyFile;

/// Options of `orrery sim`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Run a study: every policy on every workload, cluster and case of faults, with every seed
    Run(run::Options),
    /// Write an example of a study, with a comment for each field
    Init {
        /// File to write; it must not exist yet
        #[arg(default_value = "study.yaml")]
        file: PathBuf,
    },
    /// Compare two policies of a study that has run, paired by seed
    Compare(compare::Options),
    /// Check a study and every file that it names
    Check { study: PathBuf },
    /// Make a workload of an audit log, or of what kubectl has watched
    Import(import::Options),
    /// Try faults at every point of a story, and report the promises that they break
    Explore(explore::Options),
    /// Shrink a scenario that breaks a promise
    Minimise(explore::minimise::Options),
    /// Let another program decide where the pods of a study go, one by one; the package orrery_gym does
    #[command(after_help = "docs/experiments.md describes what goes over standard input and output.")]
    Step(step::Options),
    /// Open the cluster of a finished cell for kubectl, as it was at a moment
    Replay(replay::Options),
    /// Write the JSON Schema of studies
    Schema,
    /// Run one cell of a study; `run` starts a process for each
    #[command(hide = true)]
    Cell(cell::Options),
    /// Run a command and end it when standard input closes; a cell runs its external scheduler so
    #[command(hide = true)]
    Keep(external::keeper::Options),
    /// Play a scenario; `explore` starts a process for each
    #[command(hide = true)]
    Play(explore::play::Options),
}

/// Runs the sub-command. A cell makes a runtime of its own, whose clock is virtual.
pub fn main(options: Options) -> ExitCode {
    match options.command {
        Command::Run(options) => match run::read(&options) {
            Ok(file) => run_main("sim", |env| run::run(options, file, env)),
            Err(lines) => ended(Err(lines)),
        },
        Command::Init { file } => ended(init(&file).map(|()| format!("{} is written", file.display()))),
        Command::Compare(options) => ended(compare::run(&options)),
        Command::Check { study } => ended(check(&study)),
        Command::Import(options) => ended(import::run(&options)),
        Command::Step(options) => ended(step::run(&options)),
        Command::Replay(options) => match replay::read(&options) {
            Ok(found) => run_main("sim", |env| replay::run(options, found, env)),
            Err(lines) => ended(Err(lines)),
        },
        Command::Schema => ended(Ok(study::schema::schema().to_string())),
        Command::Cell(options) => match cell::read(&options) {
            Ok(file) if cell::is_external(&file, &options) => run_main("sim", |env| external::run(options, file, env)),
            Ok(file) => ended(cell::run(&options, &file)),
            Err(lines) => ended(Err(lines)),
        },
        Command::Keep(options) => run_main("sim", |env| external::keeper::run(options, env)),
        Command::Explore(options) => ended(explore::run(&options)),
        Command::Minimise(options) => ended(explore::minimise::run(&options)),
        Command::Play(options) => ended(explore::play::run(&options)),
    }
}

fn ended(result: Result<String, Vec<String>>) -> ExitCode {
    match result {
        Ok(text) if text.is_empty() => ExitCode::SUCCESS,
        Ok(text) => {
            let _ = writeln!(io::stdout(), "{text}"); // a reader such as `head` may have seen enough
            ExitCode::SUCCESS
        }
        Err(lines) => {
            lines.iter().for_each(|line| eprintln!("error: {line}"));
            ExitCode::FAILURE
        }
    }
}

fn init(file: &Path) -> Result<(), Vec<String>> {
    let written = OpenOptions::new().write(true).create_new(true).open(file);
    let written = written.and_then(|mut file| file.write_all(study::EXAMPLE.as_bytes()));
    written.map_err(|error: io::Error| vec![format!("{}: {error}", file.display())])
}

fn check(path: &Path) -> Result<String, Vec<String>> {
    let file = StudyFile::checked(path, None)?;
    file.warnings().iter().for_each(|line| eprintln!("warning: {line}"));
    Ok(format!("{} is well-formed and has {} cells", path.display(), file.study.cells().len()))
}
