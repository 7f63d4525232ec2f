//! `orrery sim compare`: what two policies have in common and what not, over all seeds that both have run with; and the
//! report of a study.

use crate::sim::results::{self, Finished};
use crate::sim::study_file::StudyFile;
use clap::Args;
use component_base::rng::Random;
use experiments::compare::{self, Comparison, LEVEL, Question, Run};
use experiments::draw::Draw;
use experiments::output::report::{self, Outcome};
use experiments::output::{curves, tables, waits};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Seed of the bootstrap, so that the same results give the same intervals.
const BOOTSTRAP_SEED: u64 = 1;

/// Options of `orrery sim compare`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  orrery sim compare most-allocated default --results results/packing
  orrery sim compare most-allocated default --results results/packing --metric allocation.cpu --csv")]
pub struct Options {
    /// Policy to compare
    pub policy: String,
    /// Policy that it is compared with
    pub baseline: String,
    /// Folder of a study's results
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub results: PathBuf,
    /// Metric to compare, as often as you like; without it all are, and those that differ are shown
    #[arg(long, value_name = "NAME")]
    pub metric: Vec<String>,
    /// Compare runs with an external scheduler too, which are not repeatable
    #[arg(long)]
    pub not_repeatable: bool,
    /// Print every number as CSV instead of sentences
    #[arg(long)]
    pub csv: bool,
}

/// Returns what is to be printed.
pub fn run(options: &Options) -> Result<String, Vec<String>> {
    let cells = results::find(&options.results).map_err(|error| vec![error])?;
    let studies: BTreeSet<&str> = cells.iter().map(|cell| cell.manifest.study.as_str()).collect();
    if studies.len() > 1 {
        let names: Vec<&str> = studies.into_iter().collect();
        return Err(vec![format!(
            "{} has results of several studies: {}",
            options.results.display(),
            names.join(", ")
        )]);
    }
    let compared = compare(
        &runs(&cells)?,
        Question {
            policy: &options.policy,
            baseline: &options.baseline,
            metrics: &options.metric,
            takes_unrepeatable: options.not_repeatable,
        },
    )?;
    let is_shown = |one: &&Comparison| options.csv || !options.metric.is_empty() || one.p_adjusted < LEVEL;
    let shown: Vec<Comparison> = compared.iter().filter(is_shown).cloned().collect();
    if options.csv {
        return Ok(String::from_utf8_lossy(&tables::comparisons_csv(&shown)).trim_end().to_owned());
    }
    if shown.is_empty() {
        let seeds = compared.first().map_or(0, |one| one.seeds);
        return Ok(format!(
            "{} and {} show no difference in any of {} metrics over {seeds} seeds",
            options.policy,
            options.baseline,
            compared.len()
        ));
    }
    let lines: Vec<String> = shown.iter().map(|one| format!("{}: {}", one.setting, compare::sentence(one))).collect();
    Ok(lines.join("\n"))
}

/// Writes `report.html`, `comparisons.csv` and plots of a study whose cells have all finished. Its first policy is the baseline.
pub fn write_report(file: &StudyFile, out: &Path) -> Result<(), String> {
    let study = &file.study;
    let cells = study.cells();
    let cells = cells.iter().map(|cell| Finished::open(out.join(cell.to_string())));
    let cells: Vec<Finished> = cells.collect::<Result<_, _>>()?;
    let outcome = |cell: &Finished| -> Result<Outcome, String> {
        let summary = cell.summary(file.sample_every())?;
        let manifest = &cell.manifest;
        let (setting, policy) = (manifest.setting.clone(), manifest.policy.clone());
        let decisions = cell.decisions(&waits::longest(&summary))?;
        let explained = cell.explained(&waits::last_attempts(&decisions))?;
        Ok(Outcome { setting, policy, seed: manifest.seed, summary, decisions, explained })
    };
    let outcomes: Vec<Outcome> = cells.iter().map(outcome).collect::<Result<_, _>>()?;
    let (mut compared, mut refusals) = (Vec::new(), Vec::new());
    if let Some((baseline, others)) = study.policies.split_first() {
        let runs = runs(&cells).map_err(|problems| problems.join("; "))?;
        // A cluster without GPUs, for example, has no metrics of them.
        let has_all = |name: &&String| runs.iter().all(|run| run.values.contains_key(*name));
        let wanted: Vec<String> = study.metrics.iter().filter(has_all).cloned().collect();
        for policy in others {
            let (policy, baseline) = (policy.name.as_str(), baseline.name.as_str());
            match compare(&runs, Question { policy, baseline, metrics: &wanted, takes_unrepeatable: false }) {
                Ok(found) => compared.extend(found),
                Err(why) => refusals.extend(why),
            }
        }
    }
    let table = tables::comparisons_csv(&compared);
    // Sentences for all metrics would hide those that say something.
    compared.retain(|one| !study.metrics.is_empty() || one.p_adjusted < LEVEL);
    let html = report::report(study, &outcomes, &compared, &refusals)?;
    let put = |path: PathBuf, bytes: &[u8]| {
        fs::write(&path, bytes).map_err(|error: io::Error| format!("{}: {error}", path.display()))
    };
    let settings: BTreeSet<&str> = outcomes.iter().map(|outcome| outcome.setting.as_str()).collect();
    for setting in settings {
        let of: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.setting == setting).collect();
        for (name, plot) in curves::plots(study, &of) {
            put(out.join(setting).join(format!("{name}.svg")), plot.svg()?.as_bytes())?;
            put(out.join(setting).join(format!("{name}.png")), &plot.png()?)?;
        }
    }
    put(out.join("comparisons.csv"), &table)?;
    put(out.join("report.html"), html.as_bytes())
}

fn runs(cells: &[Finished]) -> Result<Vec<Run>, Vec<String>> {
    cells.iter().map(Finished::run).collect::<Result<_, _>>().map_err(|error| vec![error])
}

fn compare(runs: &[Run], question: Question<'_>) -> Result<Vec<Comparison>, Vec<String>> {
    let draws = || -> Box<dyn Draw> {
        let random = Random::from_seed(BOOTSTRAP_SEED, "bootstrap");
        Box::new(move || random.u64())
    };
    compare::compare(runs, question, &draws)
}
