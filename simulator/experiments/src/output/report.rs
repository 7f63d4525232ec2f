//! `report.html`: one file that needs no other, with tables, plots, what the comparison says, and the pods that waited
//! longest.

use crate::compare::{Comparison, sentence};
use crate::metrics::{NAMES, PodRow, Sample, Summary};
use crate::output::plot::{self, Series};
use crate::statistics::{deviation, mean};
use crate::study::Study;
use crate::units::{number_text, seconds};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Pods of a setting that the report shows.
const WORST: usize = 10;

/// A finished cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// `CLUSTER/WORKLOAD/FAULTS`.
    pub setting: String,
    pub policy: String,
    pub seed: u64,
    pub summary: Summary,
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}\
table{border-collapse:collapse;margin:1em 0}th,td{padding:.25em .7em;border-bottom:1px solid #ddd;text-align:right}\
th:first-child,td:first-child{text-align:left}td.text{text-align:left}svg{max-width:100%;height:auto}";

/// Writes the report of a study. `comparisons` may be empty, or `Err` with the reasons why nothing can be said.
pub fn report(
    study: &Study,
    outcomes: &[Outcome],
    comparisons: &Result<Vec<Comparison>, Vec<String>>,
) -> Result<String, String> {
    let mut html = String::new();
    let title = escaped(&study.name);
    add(
        &mut html,
        format_args!("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>"),
    );
    add(
        &mut html,
        format_args!("<style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n<p>{}</p>\n", escaped(&study.description)),
    );
    let settings: BTreeSet<&str> = outcomes.iter().map(|outcome| outcome.setting.as_str()).collect();
    for setting in settings {
        let of: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.setting == setting).collect();
        add(&mut html, format_args!("<h2>{}</h2>\n", escaped(setting)));
        said(&mut html, setting, comparisons);
        table(&mut html, study, &of);
        plots(&mut html, study, &of)?;
        worst(&mut html, &of);
    }
    html.push_str("</body></html>\n");
    Ok(html)
}

fn add(html: &mut String, text: std::fmt::Arguments<'_>) {
    html.write_fmt(text).expect("a string takes every text");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn said(html: &mut String, setting: &str, comparisons: &Result<Vec<Comparison>, Vec<String>>) {
    let lines: Vec<String> = match comparisons {
        Ok(all) => all.iter().filter(|one| one.setting == setting).map(sentence).collect(),
        Err(why) => why.clone(),
    };
    if !lines.is_empty() {
        let items: String = lines.iter().map(|line| format!("<li>{}</li>\n", escaped(line))).collect();
        add(html, format_args!("<ul>\n{items}</ul>\n"));
    }
}

/// Policies in the order of the study, with their outcomes.
fn by_policy<'o>(study: &'o Study, of: &[&'o Outcome]) -> Vec<(&'o str, Vec<&'o Outcome>)> {
    let runs = |name: &str| of.iter().filter(|outcome| outcome.policy == name).copied().collect::<Vec<_>>();
    let all = study.policies.iter().map(|policy| (policy.name.as_str(), runs(&policy.name)));
    all.filter(|(_, outcomes)| !outcomes.is_empty()).collect()
}

/// Half of the 95 % interval of a mean, by the normal distribution. Plots and tables show it; the comparison computes better.
fn half_interval(numbers: &[f64]) -> f64 {
    if numbers.len() < 2 { 0.0 } else { 1.96 * deviation(numbers) / libm::sqrt(numbers.len() as f64) }
}

fn table(html: &mut String, study: &Study, of: &[&Outcome]) {
    let policies = by_policy(study, of);
    let heads: String = policies.iter().map(|(name, _)| format!("<th>{}</th>", escaped(name))).collect();
    add(html, format_args!("<table>\n<tr><th>metric</th>{heads}</tr>\n"));
    let is_wanted = |name: &str| study.metrics.is_empty() || study.metrics.iter().any(|wanted| wanted == name);
    for (name, unit, _) in NAMES.iter().filter(|(name, _, _)| is_wanted(name)) {
        let factor = if *unit == "%" { 100.0 } else { 1.0 };
        let cells: Vec<String> = policies
            .iter()
            .map(|(_, outcomes)| {
                let values = outcomes.iter().filter_map(|outcome| outcome.summary.values.get(*name));
                let values: Vec<f64> = values.map(|value| value * factor).collect();
                let short = |number: f64| number_text((number * 1000.0).round() / 1000.0);
                match values.len() {
                    0 => "<td>–</td>".to_owned(),
                    1 => format!("<td>{}</td>", short(values[0])),
                    _ => format!("<td>{} ± {}</td>", short(mean(&values)), short(half_interval(&values))),
                }
            })
            .collect();
        if cells.iter().any(|cell| cell != "<td>–</td>") {
            let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
            add(html, format_args!("<tr><td>{name}{unit}</td>{}</tr>\n", cells.concat()));
        }
    }
    html.push_str("</table>\n");
}

fn plots(html: &mut String, study: &Study, of: &[&Outcome]) -> Result<(), String> {
    let kinds: [(&str, &str, fn(&Sample) -> f64); 5] = [
        ("Allocated CPU", "%", |sample| sample.cpu * 100.0),
        ("Allocated GPUs", "%", |sample| sample.gpu * 100.0),
        ("Fragmentation of unallocated GPUs", "%", |sample| sample.fragmentation * 100.0),
        ("Pods that wait", "pods", |sample| sample.pending as f64),
        ("Power", "W", |sample| sample.power_w),
    ];
    for (title, unit, field) in kinds {
        let all: Vec<Series> = by_policy(study, of)
            .into_iter()
            .map(|(name, outcomes)| Series { name: name.to_owned(), points: band(&outcomes, field) })
            .collect();
        if all.iter().flat_map(|series| &series.points).any(|point| point.1 > 0.0) {
            add(html, format_args!("{}\n", plot::lines(title, "virtual time in hours", unit, &all)?));
        }
    }
    Ok(())
}

/// Returns the mean over the seeds at each sample time, with its interval. A run that has ended counts no more.
pub fn band(outcomes: &[&Outcome], field: fn(&Sample) -> f64) -> Vec<(f64, f64, f64, f64)> {
    let mut by_time: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for outcome in outcomes {
        // The last sample is at the end of the run, a time that other seeds do not have.
        let regular = outcome.summary.samples.len().saturating_sub(1).max(1);
        for sample in outcome.summary.samples.iter().take(regular) {
            by_time.entry(sample.at_us).or_default().push(field(sample));
        }
    }
    let point = |(at_us, values): (u64, Vec<f64>)| {
        let (middle, half) = (mean(&values), half_interval(&values));
        (seconds(at_us) / 3600.0, middle, (middle - half).max(0.0), middle + half)
    };
    by_time.into_iter().map(point).collect()
}

fn worst(html: &mut String, of: &[&Outcome]) {
    let waited = |outcome: &Outcome, pod: &PodRow| {
        let end_us = outcome.summary.samples.last().map_or(0, |sample| sample.at_us);
        pod.scheduled_us.unwrap_or(end_us).saturating_sub(pod.created_us)
    };
    let pods = of.iter().flat_map(|outcome| outcome.summary.pods.iter().map(move |pod| (*outcome, pod)));
    let mut pods: Vec<_> = pods.map(|(outcome, pod)| (waited(outcome, pod), outcome, pod)).collect();
    pods.sort_by(|one, other| {
        let order = |of: &(u64, &Outcome, &PodRow)| (of.1.policy.clone(), of.1.seed, of.2.created.pod.clone());
        other.0.cmp(&one.0).then_with(|| order(one).cmp(&order(other)))
    });
    pods.truncate(WORST);
    pods.retain(|(waited_us, _, _)| *waited_us > 0);
    if pods.is_empty() {
        return;
    }
    html.push_str("<h3>Pods that waited longest</h3>\n<table>\n");
    html.push_str(
        "<tr><th>pod</th><th>policy</th><th>seed</th><th>waited (s)</th><th>attempts</th><th>last reason</th></tr>\n",
    );
    for (waited_us, outcome, pod) in pods {
        add(
            html,
            format_args!(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"text\">{}</td></tr>\n",
                escaped(&pod.created.pod),
                escaped(&outcome.policy),
                outcome.seed,
                number_text(seconds(waited_us)),
                pod.failed_attempts,
                escaped(&pod.last_reason),
            ),
        );
    }
    html.push_str("</table>\n");
}
