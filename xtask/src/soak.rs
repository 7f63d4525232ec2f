//! `cargo xtask soak`: the simulated cluster under many seeds, a short story with every write as a crash point, or the
//! scheduler's decisions on random histories beside those of the reference evaluator. The first two are what `orrery sim explore`
//! does, which it runs; for the third, each seed is a process of its own.

use crate::release;
use clap::Args;
use exploration::pool::{self, Ended, Order};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The seed to replay.
const SEED: &str = "SEED";
/// The scenario that compares the scheduler with the reference evaluator.
const SCHEDULER: &str = "scheduler";

/// Which seeds of which scenario.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How many seeds; the variable SEED replays a single one instead
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// A scenario or a story, as `orrery sim explore --list` prints them, or scheduler
    #[arg(long, default_value = "survive")]
    scenario: String,
    /// Runs a story under the first seed once for every write, with the component that writes killed right before it, and
    /// once with the component killed right after it
    #[arg(long)]
    every_write: bool,
    /// Runs at the same time
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    jobs: u32,
    /// The program to run; without it, the release build of this tree
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Where logs and reports go
    #[arg(long, value_name = "DIRECTORY", default_value = "target/soak")]
    out: PathBuf,
}

/// Why there was no verdict.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{SEED} is {0:?}, which is no number")]
    Seed(String),
    #[error("{0}")]
    Build(String),
}

/// Runs the seeds or the crash points, prints a line for each, and complains of those that failed.
pub fn run(options: &Options, root: &Path) -> Result<Vec<String>, Error> {
    let (package, name) = match options.scenario.as_str() {
        SCHEDULER => ("scheduler-comparison", "compare-scheduler"),
        _ => ("orrery", "orrery"),
    };
    let program = match &options.program {
        Some(program) => program.clone(),
        None => release::build(root, package, name).map_err(Error::Build)?,
    };
    let (first, last) = seeds(options, std::env::var(SEED).ok())?;
    if options.scenario == SCHEDULER {
        return compare(&program, options.jobs, first..=last);
    }
    // A soak begins anew: the results in the folder may be those of another build.
    match fs::remove_dir_all(folder(options, root)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let status = Command::new(&program).args(exploration(options, root, first, last)).status()?;
    Ok(if status.success() { Vec::new() } else { vec![format!("{} failed ({status})", options.scenario)] })
}

/// Returns the first and the last seed, which are one if it was asked for by the variable.
fn seeds(options: &Options, replayed: Option<String>) -> Result<(u64, u64), Error> {
    match replayed {
        Some(text) => text.parse().map(|seed| (seed, seed)).map_err(|_| Error::Seed(text)),
        None => Ok((options.first, options.first.saturating_add(options.seeds.max(1) - 1))),
    }
}

/// Returns the folder of the results.
fn folder(options: &Options, root: &Path) -> PathBuf {
    root.join(&options.out).join(&options.scenario).join(if options.every_write { "writes" } else { "seeds" })
}

/// Returns the arguments of `orrery` that do the same.
fn exploration(options: &Options, root: &Path, first: u64, last: u64) -> Vec<String> {
    let (kind, seed) = match options.every_write {
        true => ("crash", first.to_string()),
        false => ("drawn", format!("{first}..{last}")),
    };
    let out = folder(options, root);
    let (story, jobs) = (options.scenario.clone(), options.jobs.to_string());
    let named = [("--story", story), ("--kind", kind.to_owned()), ("--seed", seed), ("--jobs", jobs)];
    let named = named.into_iter().chain([("--out", out.display().to_string())]);
    let words = ["sim", "explore"].map(str::to_owned).into_iter();
    words.chain(named.flat_map(|(name, value)| [name.to_owned(), value])).collect()
}

/// Compares the scheduler with the reference evaluator under each seed.
fn compare(program: &Path, jobs: u32, seeds: impl Iterator<Item = u64>) -> Result<Vec<String>, Error> {
    let mut failed = Vec::new();
    let orders = seeds.map(|seed| {
        let arguments = vec![SCHEDULER.to_owned(), seed.to_string()];
        (seed, Order { arguments, input: String::new() })
    });
    pool::run(program, jobs as usize, orders, |seed, ended| {
        failed.extend(complaint(seed, &ended));
        Ok::<(), Error>(())
    })?;
    Ok(failed)
}

/// Prints the result of one seed, and returns a complaint if it failed.
fn complaint(seed: u64, ended: &Ended) -> Option<String> {
    if ended.is_success {
        println!("seed {seed}: good");
        return None;
    }
    println!("{}", ended.stderr.trim_end());
    let replay = format!("{SEED}={seed} cargo xtask soak --scenario {SCHEDULER}");
    Some(format!("seed {seed} failed ({}); replay it: {replay}", ended.status))
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
        assert_eq!(seeds(&options("--seeds 3 --first 7"), None).unwrap(), (7, 9));
        assert_eq!(seeds(&options("--seeds 3"), Some("42".to_owned())).unwrap(), (42, 42));
        let error = seeds(&options(""), Some("x".to_owned())).unwrap_err();
        assert_eq!(error.to_string(), "SEED is \"x\", which is no number");
    }

    #[test]
    fn a_soak_is_an_exploration() {
        let words = |line: &str| exploration(&options(line), Path::new("/tree"), 3, 9).join(" ");
        let out = "--jobs 2 --out /tree/target/soak";
        assert_eq!(words(""), format!("sim explore --story survive --kind drawn --seed 3..9 {out}/survive/seeds"));
        let writes = format!("sim explore --story job --kind crash --seed 3 {out}/job/writes");
        assert_eq!(words("--scenario job --every-write"), writes);
    }

    #[test]
    fn a_seed_that_fails_is_named() {
        for (program, complaints) in [("true", 0), ("false", 2)] {
            let line = format!("--scenario {SCHEDULER} --seeds 2 --program {program}");
            let failed = run(&options(&line), Path::new("/")).unwrap();
            assert_eq!(failed.len(), complaints, "{program}");
            assert!(failed.iter().all(|complaint| complaint.contains("cargo xtask soak --scenario scheduler")));
        }
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(run(&options("--program false"), folder.path()).unwrap().len(), 1);
    }
}
