//! `cargo xtask soak`: the simulated cluster under many seeds, a short story with every write as a crash point, or the
//! scheduler's decisions on random histories beside those of the reference evaluator. Each run is a process of its own; a run that breaks a promise leaves its log and its report behind, and is named at the end.

use crate::release;
use clap::Args;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

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
    /// roll-out, survive, daemon-sets, stateful-sets, scaled-and-attached, limits, service-cidrs, devices, gangs, cloud, clocks,
    /// any-order, error-states, at-size, at-tenth-of-size, quiet-hour, stale-rollout, stories, killed-fleet, stories-under-faults, cut-off,
    /// lost-node or scheduler; with --every-write a story: deployment, stateful-set, daemon-set, job, claim, autoscaler, namespace
    /// or gang
    #[arg(long, default_value = "survive")]
    scenario: String,
    /// Runs a story under the first seed once for every write, with the component that writes killed right before it, and
    /// once with the component killed right after it
    #[arg(long)]
    every_write: bool,
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
    #[error("{0} names no crash points: is it a story?")]
    Points(String),
}

/// What one run does: a scenario under a seed, perhaps with a crash point.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Order {
    seed: u64,
    point: Option<String>,
}

impl Order {
    fn arguments(&self, scenario: &str) -> Vec<String> {
        [scenario.to_owned(), self.seed.to_string()].into_iter().chain(self.point.clone()).collect()
    }

    /// Returns the command that repeats the run.
    fn replay(&self, scenario: &str) -> String {
        match &self.point {
            None => format!("{SEED}={} cargo xtask soak --scenario {scenario}", self.seed),
            Some(_) => format!("orrery-under-simulation {}", self.arguments(scenario).join(" ")),
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}", self.seed)?;
        self.point.iter().try_for_each(|point| write!(f, " {point}"))
    }
}

struct Run {
    order: Order,
    child: Child,
    log: PathBuf,
    report: PathBuf,
}

/// Runs the seeds or the crash points, prints a line for each, and complains of those that failed.
pub fn run(options: &Options, root: &Path) -> Result<Vec<String>, Error> {
    let (package, name) = match options.scenario.as_str() {
        SCHEDULER => ("scheduler-comparison", "compare-scheduler"),
        _ => ("e2e", "orrery-under-simulation"),
    };
    let program = match &options.program {
        Some(program) => program.clone(),
        None => release::build(root, package, name).map_err(Error::Build)?,
    };
    let out = root.join(&options.out);
    std::fs::create_dir_all(&out).map_err(|error| Error::Io(out.display().to_string(), error))?;
    let seeds = seeds(options, std::env::var(SEED).ok())?;
    let orders = match options.every_write {
        true => crash_points(&program, &options.scenario, seeds.first().copied().unwrap_or_default())?,
        false => seeds.into_iter().map(|seed| Order { seed, point: None }).collect(),
    };
    let mut waiting = orders.into_iter();
    let mut running: Vec<Run> = Vec::new();
    let mut failed = Vec::new();
    loop {
        while running.len() < options.jobs as usize
            && let Some(order) = waiting.next()
        {
            running.push(start(&program, &options.scenario, order, &out)?);
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

/// Plays a story without a kill, and returns an order for each of its crash points.
fn crash_points(program: &Path, story: &str, seed: u64) -> Result<Vec<Order>, Error> {
    let order = Order { seed, point: None };
    let output = Command::new(program).args(order.arguments(story)).stdin(Stdio::null()).output();
    let output = output.map_err(|error| Error::Io(program.display().to_string(), error))?;
    let log = String::from_utf8_lossy(&output.stdout);
    let count = log.lines().rev().find_map(number_of_points).ok_or_else(|| Error::Points(story.to_owned()))?;
    let points = (1..=count).flat_map(|write| [format!("before-{write}"), format!("after-{write}")]);
    Ok(points.map(|point| Order { seed, point: Some(point) }).collect())
}

/// Reads the number from the line `TIME simulation: 42 crash points`.
fn number_of_points(line: &str) -> Option<u32> {
    line.strip_suffix(" crash points")?.rsplit(' ').next()?.parse().ok()
}

fn start(program: &Path, scenario: &str, order: Order, out: &Path) -> Result<Run, Error> {
    let name = order.arguments(scenario).join("-");
    let file = |suffix: &str| out.join(format!("{name}.{suffix}"));
    let create = |path: &Path| File::create(path).map_err(|error| Error::Io(path.display().to_string(), error));
    let (log, report) = (file("log"), file("report"));
    let child = Command::new(program)
        .args(order.arguments(scenario))
        .stdin(Stdio::null())
        .stdout(create(&log)?)
        .stderr(create(&report)?)
        .spawn()
        .map_err(|error| Error::Io(program.display().to_string(), error))?;
    Ok(Run { order, child, log, report })
}

/// A complaint if the run failed.
fn finish(mut run: Run, scenario: &str) -> Result<Option<String>, Error> {
    let Run { order, child, log, report } = &mut run;
    let status = child.wait().map_err(|error| Error::Io(order.to_string(), error))?;
    if status.success() {
        println!("{order}: good");
        return Ok(None);
    }
    let text = std::fs::read_to_string(&*report).unwrap_or_default();
    let first = text.lines().find(|line| !line.is_empty()).unwrap_or("ended without a report");
    println!("{first}");
    Ok(Some(format!(
        "{order} failed ({status}); replay it: {}; its report is {}, its log {}",
        order.replay(scenario),
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
    fn every_write_is_tried_before_and_after() {
        assert_eq!(number_of_points("2026-01-01T00:00:09Z simulation: 42 crash points"), Some(42));
        assert_eq!(number_of_points("2026-01-01T00:00:09Z simulation: no more faults"), None);
        let order = Order { seed: 3, point: Some("after-7".to_owned()) };
        assert_eq!(order.arguments("job"), ["job", "3", "after-7"]);
        assert_eq!(order.replay("job"), "orrery-under-simulation job 3 after-7");
        let directory = tempfile::tempdir().unwrap();
        let line = format!("--every-write --program true --out {}", directory.path().display());
        let error = run(&options(&line), directory.path()).unwrap_err();
        assert_eq!(error.to_string(), "survive names no crash points: is it a story?");
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
