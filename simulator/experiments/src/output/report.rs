//! `report.html`: one file that needs no other, with tables, plots, what the comparison says, and the pods that waited
//! longest.

use crate::compare::{Comparison, sentence};
use crate::decision::Decided;
use crate::metric_names::Direction;
use crate::metrics::{NAMES, Summary};
use crate::output::curves::{by_policy, half_interval, plots};
use crate::output::explained::Explained;
use crate::output::html::{Html, escaped};
use crate::output::waits;
use crate::statistics::mean;
use crate::study::{Depth, Study};
use crate::units::number_text;
use std::collections::{BTreeMap, BTreeSet};

/// A finished cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// `CLUSTER/WORKLOAD/FAULTS`.
    pub setting: String,
    pub policy: String,
    pub seed: u64,
    pub summary: Summary,
    /// The attempts of the pods that waited longest.
    pub decisions: Vec<Decided>,
    /// What plugins said in the last attempt of each of these pods, by its number. Empty without records of plugins.
    pub explained: BTreeMap<u64, Explained>,
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:62em;margin:2em auto;padding:0 1em;color:#222}\
h1,h2,h3{line-height:1.2}h2{margin-top:2em;border-bottom:2px solid #0072b2;padding-bottom:.2em}\
p.facts{color:#555}ul.said{padding-left:1.2em}\
table{border-collapse:collapse;margin:1em 0}th,td{padding:.25em .8em;border-bottom:1px solid #ddd;text-align:right}\
th{border-bottom:2px solid #999}th:first-child,td:first-child{text-align:left}tr:hover td{background:#f6f9fc}\
td.best{font-weight:600;background:#eaf4fb}td.unit{color:#777;text-align:left;padding-left:0}\
td.why{text-align:left;color:#444;font-size:13px;padding-top:0}td.why ul{margin:0 0 .5em;padding-left:1.5em}td.why ul ul{margin:0;color:#777}\
table.waits tr:not(:has(.why)) td{border-bottom:none;padding-top:.5em}figure{margin:1em 0}\
svg{max-width:100%;height:auto;display:block}@media print{h2{break-before:page}figure,tr{break-inside:avoid}}";

/// Writes the report of a study. `refusals` are the reasons for which policies were not compared.
pub fn report(
    study: &Study,
    outcomes: &[Outcome],
    comparisons: &[Comparison],
    refusals: &[String],
) -> Result<String, String> {
    let mut html = Html::default();
    let title = escaped(&study.name);
    html.add(format_args!("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>"));
    html.add(format_args!("<style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"));
    html.add(format_args!("<p>{}</p>\n<p class=\"facts\">{}</p>\n", escaped(&study.description), facts(study)));
    let settings: BTreeSet<&str> = outcomes.iter().map(|outcome| outcome.setting.as_str()).collect();
    for setting in settings {
        let of: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.setting == setting).collect();
        html.add(format_args!("<h2>{}</h2>\n", escaped(setting)));
        said(&mut html, setting, comparisons, refusals);
        table(&mut html, study, &of);
        for (_, plot) in plots(study, &of) {
            html.add(format_args!("<figure>{}</figure>\n", plot.svg()?));
        }
        waits::add(&mut html, &of);
    }
    html.line("</body></html>");
    Ok(html.0)
}

/// Returns a sentence about what was run.
fn facts(study: &Study) -> String {
    let count = |number: usize, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
    let depth = match study.depth {
        Depth::Full => "through the whole control plane",
        Depth::Scheduler => "with the scheduler on a modelled API",
    };
    format!(
        "{} {depth}: {}, {}, {}, {} of faults, {}. Numbers are means over the seeds with their 95 % interval; the best mean \
         of a row is marked, and says nothing where intervals overlap.",
        count(study.cells().len(), "run", "runs"),
        count(study.clusters.len(), "cluster", "clusters"),
        count(study.workloads.len(), "workload", "workloads"),
        count(study.policies.len(), "policy", "policies"),
        count(study.faults.len().max(1), "case", "cases"),
        count(study.seeds.0.len(), "seed", "seeds"),
    )
}

/// Returns false for a policy whose scheduler runs in real time.
fn is_repeatable(study: &Study, policy: &str) -> bool {
    study.policies.iter().all(|one| one.name != policy || one.external.is_none())
}

fn said(html: &mut Html, setting: &str, comparisons: &[Comparison], refusals: &[String]) {
    let found = comparisons.iter().filter(|one| one.setting == setting).map(sentence);
    let refused = refusals.iter().filter(|why| why.starts_with(&format!("{setting}: "))).cloned();
    let lines: Vec<String> = found.chain(refused).collect();
    if !lines.is_empty() {
        let items: String = lines.iter().map(|line| format!("<li>{}</li>\n", escaped(line))).collect();
        html.add(format_args!("<ul class=\"said\">\n{items}</ul>\n"));
    }
}

fn table(html: &mut Html, study: &Study, of: &[&Outcome]) {
    let policies = by_policy(study, of);
    let head = |name: &str| {
        let mark = if is_repeatable(study, name) { "" } else { "<br>(not repeatable)" };
        format!("<th>{}{mark}</th>", escaped(name))
    };
    let heads: String = policies.iter().map(|(name, _)| head(name)).collect();
    html.add(format_args!("<table>\n<tr><th>metric</th><th></th>{heads}</tr>\n"));
    let is_wanted = |name: &str| study.metrics.is_empty() || study.metrics.iter().any(|wanted| wanted == name);
    for (name, unit, direction) in NAMES.iter().filter(|(name, _, _)| is_wanted(name)) {
        let factor = if *unit == "%" { 100.0 } else { 1.0 };
        let of_policy = |outcomes: &[&Outcome]| -> Vec<f64> {
            outcomes
                .iter()
                .filter_map(|outcome| outcome.summary.values.get(*name))
                .map(|value| value * factor)
                .collect()
        };
        let values: Vec<Vec<f64>> = policies.iter().map(|(_, outcomes)| of_policy(outcomes)).collect();
        if values.iter().all(Vec::is_empty) {
            continue;
        }
        let best = best(&values, *direction);
        let short = |number: f64| number_text((number * 1000.0).round() / 1000.0);
        let cells: String = values
            .iter()
            .map(|values| {
                let class = if best.is_some_and(|best| mean(values) == best) { " class=\"best\"" } else { "" };
                match values.len() {
                    0 => "<td>–</td>".to_owned(),
                    1 => format!("<td{class}>{}</td>", short(values[0])),
                    _ => format!("<td{class}>{} ± {}</td>", short(mean(values)), short(half_interval(values))),
                }
            })
            .collect();
        html.add(format_args!("<tr><td>{name}</td><td class=\"unit\">{unit}</td>{cells}</tr>\n"));
    }
    html.line("</table>");
}

/// Returns the best mean; `None` if all are equal, one policy lacks the metric, or no value is better than another.
fn best(values: &[Vec<f64>], direction: Direction) -> Option<f64> {
    let means: Vec<f64> = values.iter().map(|values| mean(values)).collect();
    let best = match direction {
        Direction::Higher => means.iter().copied().reduce(f64::max),
        Direction::Lower => means.iter().copied().reduce(f64::min),
        Direction::Neither => None,
    }?;
    let differ = means.iter().any(|mean| *mean != best);
    (differ && values.iter().all(|values| !values.is_empty())).then_some(best)
}
