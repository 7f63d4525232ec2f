//! `cargo xtask soak`: the simulated cluster under many seeds. Each run is a process of its own; a seed that breaks a
//! promise leaves its log and its report behind, and is named at the end.

use crate::release;
use clap::Args;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The seed to replay.
const SEED: &str = "SEED";

/// Which seeds of which scenario.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How many seeds; the variable SEED replays a single one instead
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// roll-out, survive, at-size, quiet-hour, stale-rollout, stories, killed-fleet, stories-under-faults,
    /// cut-off or lost-node
    #[arg(long, default_value = "survive")]
    scenario: String,
    /// Runs at the same time
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    jobs: u32,
    /// The simulation to run; without it, the release build of this tree
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Where logs and reports go
    #[arg(long, value_name = "DIRECTORY", default_value = "target/soak")]
    out: PathBuf,
}

/// Why there was no verdict.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}: {1}")]
    Io(String, io::Error),
    #[error("{SEED} is {0:?}, which is no number")]
    Seed(String),
    #[error("{0}")]
    Build(String),
}

struct Run {
    seed: u64,
    child: Child,
    log: PathBuf,
    report: PathBuf,
}

/// Runs the seeds, prints a line for each, and complains of those that failed.
pub fn run(options: &Options, root: &Path) -> Result<Vec<String>, Error> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => release::build(root, "e2e", "orrery-under-simulation").map_err(Error::Build)?,
    };
    let out = root.join(&options.out);
    std::fs::create_dir_all(&out).map_err(|error| Error::Io(out.display().to_string(), error))?;
    let seeds = seeds(options, std::env::var(SEED).ok())?;
    let mut waiting = seeds.into_iter();
    let mut running: Vec<Run> = Vec::new();
    let mut failed = Vec::new();
    loop {
        while running.len() < options.jobs as usize
            && let Some(seed) = waiting.next()
        {
            running.push(start(&program, &options.scenario, seed, &out)?);
        }
        if running.is_empty() {
            return Ok(failed);
        }
        // The oldest first: its line is the next to print, and the others go on meanwhile.
        failed.extend(finish(running.remove(0), &options.scenario)?);
    }
}

/// One seed if it was asked for by the variable.
fn seeds(options: &Options, replayed: Option<String>) -> Result<Vec<u64>, Error> {
    match replayed {
        Some(text) => text.parse().map(|seed| vec![seed]).map_err(|_| Error::Seed(text)),
        None => Ok((options.first..options.first.saturating_add(options.seeds)).collect()),
    }
}

fn start(program: &Path, scenario: &str, seed: u64, out: &Path) -> Result<Run, Error> {
    let file = |suffix: &str| out.join(format!("{scenario}-{seed}.{suffix}"));
    let create = |path: &Path| File::create(path).map_err(|error| Error::Io(path.display().to_string(), error));
    let (log, report) = (file("log"), file("report"));
    let child = Command::new(program)
        .args([scenario, &seed.to_string()])
        .stdin(Stdio::null())
        .stdout(create(&log)?)
        .stderr(create(&report)?)
        .spawn()
        .map_err(|error| Error::Io(program.display().to_string(), error))?;
    Ok(Run { seed, child, log, report })
}

/// A complaint if the run failed.
fn finish(mut run: Run, scenario: &str) -> Result<Option<String>, Error> {
    let Run { seed, child, log, report } = &mut run;
    let status = child.wait().map_err(|error| Error::Io(format!("seed {seed}"), error))?;
    if status.success() {
        println!("seed {seed}: good");
        return Ok(None);
    }
    let text = std::fs::read_to_string(&*report).unwrap_or_default();
    let first = text.lines().find(|line| !line.is_empty()).unwrap_or("ended without a report");
    println!("{first}");
    Ok(Some(format!(
        "seed {seed} failed ({status}); replay it: {SEED}={seed} cargo xtask soak --scenario {scenario}; \
         its report is {}, its log {}",
        report.display(),
        log.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(line: &str) -> Options {
        Line::try_parse_from(format!("soak {line}").split_whitespace()).unwrap().options
    }

    #[test]
    fn seeds_are_counted_or_named() {
        assert_eq!(seeds(&options("--seeds 3 --first 7"), None).unwrap(), [7, 8, 9]);
        assert_eq!(seeds(&options("--seeds 3"), Some("42".to_owned())).unwrap(), [42]);
        let error = seeds(&options(""), Some("x".to_owned())).unwrap_err();
        assert_eq!(error.to_string(), "SEED is \"x\", which is no number");
    }

    #[test]
    fn a_seed_that_fails_is_named() {
        let directory = tempfile::tempdir().unwrap();
        for (program, complaints) in [("true", 0), ("false", 2)] {
            let line = format!("--seeds 2 --program {program} --out {}", directory.path().display());
            let failed = run(&options(&line), directory.path()).unwrap();
            assert_eq!(failed.len(), complaints, "{program}");
            assert!(failed.iter().all(|complaint| complaint.contains("cargo xtask soak --scenario survive")));
        }
    }
}
