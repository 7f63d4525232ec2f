//! `orrery sim explore`: tries faults at every point of a story, and reports the promises that they break.
//!
//! Each fault is tried in a child process (`play`). Read first: `points`, which finds what there is to try.

pub mod play;
pub mod points;
pub mod replay;
pub mod minimise;

use crate::sim::cpu;
use clap::{Args, ValueEnum};
use experiments::study::Seeds;
use exploration::campaign::{Campaign, Line, Outcome, Progress, Summary, Trial};
use points::{Baseline, Players};
use simulator::explore::fault_scenario::FaultScenario;
use simulator::explore::stories::STORIES;
use simulator::part::Part;
use simulator::plan::point::PointKind;
use simulator::scenario::SCENARIOS;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Options of `orrery sim explore`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  orrery sim explore --list                              the stories, and how many points each has
  orrery sim explore --story job                         every fault at every point
  orrery sim explore --story job --kind crash --budget 50 -j 4
  orrery sim explore --story survive --seed 1..20        with the faults that each seed draws
  orrery sim explore --scenario results/explore/job/seed-1/crash-after-7/scenario.yaml")]
pub struct Options {
    /// Story to play again and again
    #[arg(long, required_unless_present_any = ["list", "scenario"])]
    pub story: Option<String>,
    /// Play this scenario once
    #[arg(long, value_name = "FILE", conflicts_with_all = ["story", "list"])]
    pub scenario: Option<PathBuf>,
    /// Print the stories, and how many points each has
    #[arg(long)]
    pub list: bool,
    /// Faults to try [default: all, or drawn where the seed draws them]
    #[arg(long, value_enum)]
    pub kind: Option<Kind>,
    /// Only faults of this component, such as scheduler
    #[arg(long, value_name = "NAME", value_parser = component)]
    pub component: Option<Part>,
    /// Try at most this many points, evenly spread
    #[arg(long, value_name = "N", conflicts_with = "points")]
    pub budget: Option<usize>,
    /// Try only these points, counted from 1, for example 1..50
    #[arg(long, value_name = "FIRST..LAST", value_parser = Seeds::parse)]
    pub points: Option<Seeds>,
    /// Seeds of the runs, for example 1..20. Every seed has other points
    #[arg(long, default_value = "1", value_parser = Seeds::parse)]
    pub seed: Seeds,
    /// How many runs at the same time [default: one for each core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// With --scenario, print what the components log
    #[arg(long, requires = "scenario")]
    pub logs: bool,
    /// CPU seconds after which a run counts as one that never ends
    #[arg(long, value_name = "N", default_value_t = cpu::SCENARIO, value_parser = clap::value_parser!(u64).range(1..))]
    pub cpu_seconds: u64,
    /// Folder of the results [default: results/explore/STORY/seed-N]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Faults to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Kill a component right before, and right after, each of its writes
    Crash,
    /// Freeze a watch at each of its deliveries
    Freeze,
    /// Swap a delivery with the next one of another watch
    Swap,
    /// Crash, freeze and swap
    All,
    /// The faults that the seed draws, if it draws some
    Drawn,
}

impl Kind {
    fn includes(self, kind: PointKind) -> bool {
        match self {
            Self::Crash => kind == PointKind::Crash,
            Self::Freeze => kind == PointKind::Freeze,
            Self::Swap => kind == PointKind::Swap,
            Self::All => true,
            Self::Drawn => false,
        }
    }
}

fn component(name: &str) -> Result<Part, String> {
    let names = || Part::OTHERS.map(Part::name).join(", ");
    Part::named(name).ok_or_else(|| format!("supported values: {}", names()))
}

/// Runs the sub-command.
pub fn run(options: &Options) -> Result<String, Vec<String>> {
    if let Some(file) = &options.scenario {
        let players = Players::new(Some(1), options.cpu_seconds)?;
        return replay::run(&players, file, options.out.as_deref(), options.logs);
    }
    let players = Players::new(options.jobs, options.cpu_seconds)?;
    if options.list {
        return list(&players, options.seed.0.first().copied().unwrap_or(1));
    }
    let story = options.story.as_deref().unwrap_or_default();
    let is_drawn = SCENARIOS.iter().any(|scenario| scenario.name == story);
    if !is_drawn && !STORIES.iter().any(|(name, _)| *name == story) {
        return Err(vec![format!("--story: there is no story {story:?}; orrery sim explore --list prints them")]);
    }
    let kind = options.kind.unwrap_or(if is_drawn { Kind::Drawn } else { Kind::All });
    if is_drawn && kind != Kind::Drawn {
        return Err(vec![format!("--kind: the seed draws the faults of {story}, so only drawn is possible")]);
    }
    match kind {
        Kind::Drawn => try_seeds(&players, story, options),
        _ => try_points(&players, story, kind, options),
    }
}

/// Tries a fault at each point of a story, under one seed after another. Each seed has points and a folder of its own.
fn try_points(players: &Players, story: &str, kind: Kind, options: &Options) -> Result<String, Vec<String>> {
    let (mut kept, mut errors) = (Vec::new(), Vec::new());
    let seeds = &options.seed.0;
    for seed in seeds {
        let scenario = FaultScenario::of_story(story, *seed);
        let folder = match &options.out {
            Some(folder) if seeds.len() == 1 => folder.clone(),
            Some(folder) => folder.join(format!("seed-{seed}")),
            None => default_folder(story).join(format!("seed-{seed}")),
        };
        if seeds.len() > 1 {
            say(&format!("seed {seed}:"));
        }
        match try_points_of(players, &scenario, &folder, kind, options) {
            Ok(line) => kept.push(line),
            Err(lines) => errors.extend(lines),
        }
    }
    if errors.is_empty() { Ok(kept.join("\n")) } else { Err(errors) }
}

fn try_points_of(
    players: &Players,
    scenario: &FaultScenario,
    folder: &Path,
    kind: Kind,
    options: &Options,
) -> Result<String, Vec<String>> {
    let baseline = Baseline::of(players, scenario)?;
    baseline.keep_in(folder)?;
    let points = baseline.choose(|point| {
        kind.includes(point.kind) && options.component.is_none_or(|component| component == point.component)
    });
    let count = points.len();
    let chosen = points::selected(points, options.budget, options.points.as_ref().map(|points| points.0.as_slice()));
    if chosen.is_empty() {
        return Err(vec![format!("there is no such point; with these faults and this component there are {count}")]);
    }
    let trials = chosen.iter().map(|point| players.trial(scenario, point, folder)).collect();
    campaign(players, folder, trials)
}

/// Plays a story once with each seed.
fn try_seeds(players: &Players, story: &str, options: &Options) -> Result<String, Vec<String>> {
    if options.component.is_some() || options.budget.is_some() || options.points.is_some() {
        let why = "--component, --budget and --points choose among points, and drawn faults have none";
        return Err(vec![why.to_owned()]);
    }
    let folder = options.out.clone().unwrap_or_else(|| default_folder(story));
    Baseline::of_program(&players.program)?.keep_in(&folder)?;
    let trials = options.seed.0.iter().map(|seed| players.seed_trial(story, *seed, &folder)).collect();
    campaign(players, &folder, trials)
}

fn default_folder(story: &str) -> PathBuf {
    PathBuf::from("results/explore").join(story)
}

fn campaign(players: &Players, folder: &Path, trials: Vec<Trial>) -> Result<String, Vec<String>> {
    let all = trials.len();
    let scenarios: BTreeMap<String, String> =
        trials.iter().map(|trial| (trial.name.clone(), trial.order.input.clone())).collect();
    let Players { program, jobs, cpu_s } = players;
    let result = Campaign::new(program, folder, *jobs, *cpu_s).run(trials, |progress, line, ended| {
        say(&shown(progress, line));
        // The process could not write what it played.
        let Some(scenario) = scenarios.get(&line.point).filter(|_| line.outcome == Outcome::Endless) else {
            return Ok(());
        };
        let scenario =
            FaultScenario::read(scenario).map_err(|_| io::Error::other("the scenario is not well-formed"))?;
        play::write_endless(&folder.join(&line.point), &scenario, &ended.stdout, line.promise.clone())
    });
    let summary = result.map_err(|error| vec![format!("{}: {error}", folder.display())])?;
    if summary.broken.is_empty() {
        return Ok(format!("all {all} runs kept every promise"));
    }
    Err(reported(&summary, all, folder))
}

fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}"); // a reader such as `head` may have seen enough
}

/// Returns the line of one result: how far the campaign is, and what was tried.
fn shown(Progress { done, found, all }: Progress, line: &Line) -> String {
    let text = |name: &str| line.about.get(name).and_then(|value| value.as_str());
    let place = match (text("request"), line.about.get("revision")) {
        (Some(request), _) => format!(" {request}"),
        (None, Some(revision)) => format!(" {} at revision {revision}", text("name").unwrap_or_default()),
        (None, None) => String::new(),
    };
    let component = text("component").map(|component| format!(" {component}")).unwrap_or_default();
    let end = match (line.outcome, &line.promise) {
        (Outcome::Kept, _) => "kept",
        (_, Some(promise)) => promise,
        (_, None) => "failed",
    };
    format!("{done}/{all}, {found} found, {} left: {}{component}{place}: {end}", all - done, line.point)
}

/// Returns a line for each broken promise, and for each other thing that went wrong, with the points at which it did.
fn reported(summary: &Summary, all: usize, folder: &Path) -> Vec<String> {
    /// Most points of one line.
    const SHOWN: usize = 5;
    let mut lines = Vec::new();
    for (what, points) in &summary.broken {
        let more = points.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let shown = points[..points.len().min(SHOWN)].join(", ");
        lines.push(format!("{} runs {what}: {shown}{more}", points.len()));
        if let Some(first) = points.first() {
            lines.push(format!(
                "replay: orrery sim explore --scenario {}",
                play::file_in(&folder.join(first)).display()
            ));
        }
    }
    lines.push(format!("{} of {all} runs kept every promise", summary.kept));
    lines
}

/// Returns a table of the stories.
fn list(players: &Players, seed: u64) -> Result<String, Vec<String>> {
    let mut lines = vec![format!("{:<22}{:>7}{:>8}{:>6}", "STORY", "CRASH", "FREEZE", "SWAP")];
    for (story, baseline) in Baseline::of_all(players, &STORIES.map(|(name, _)| name), seed)? {
        let count = |kind| baseline.points.iter().filter(|point| point.kind == kind).count();
        let [crash, freeze, swap] = [PointKind::Crash, PointKind::Freeze, PointKind::Swap].map(count);
        lines.push(format!("{story:<22}{crash:>7}{freeze:>8}{swap:>6}"));
    }
    let drawn: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
    lines.push(format!("Their seed draws the faults, if there are any: {}", drawn.join(", ")));
    Ok(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    #[test]
    fn a_line_says_how_far_the_campaign_is() {
        let progress = Progress { done: 12, found: 1, all: 412 };
        let about = json!({"component": "scheduler", "request": "create /api/v1/pods", "name": "create pods"});
        let about: Map<String, serde_json::Value> = serde_json::from_value(about).unwrap();
        let line = Line { point: "crash-after-7".to_owned(), about, outcome: Outcome::Kept, promise: None };
        let expected = "12/412, 1 found, 400 left: crash-after-7 scheduler create /api/v1/pods: kept";
        assert_eq!(shown(progress, &line), expected);
        let about = serde_json::from_value(json!({"component": "scheduler", "revision": 7, "name": "pods"})).unwrap();
        let promise = Some("until pods/web has true".to_owned());
        let line = Line { point: "freeze-3".to_owned(), about, outcome: Outcome::Broken, promise };
        let expected = "12/412, 1 found, 400 left: freeze-3 scheduler pods at revision 7: until pods/web has true";
        assert_eq!(shown(progress, &line), expected);
    }
}
