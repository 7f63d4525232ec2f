//! The pods of a setting that waited longest, with what the scheduler said of them.

use crate::decision::Decided;
use crate::metrics::{PodRow, Summary};
use crate::output::Outcome;
use crate::output::explained::Explained;
use crate::output::html::{Html, escaped};
use crate::units::{number_text, seconds};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Pods of a setting that are shown.
const PODS: usize = 10;
/// Least time that counts as waiting for a pod whose first attempt has found a node.
const NOTABLE_US: u64 = 1_000_000;
/// Attempts of a pod that are shown: the first ones and the last.
const ATTEMPTS: usize = 6;

/// Returns the names of the pods of a run that waited longest, of which a report may show the attempts.
pub fn longest(summary: &Summary) -> BTreeSet<String> {
    let mut pods: Vec<(u64, &PodRow)> = summary.pods.iter().map(|pod| (waited_us(summary, pod), pod)).collect();
    pods.sort_by_key(|(waited_us, pod)| (Reverse(*waited_us), pod.created.pod.clone()));
    pods.into_iter().take(PODS).map(|(_, pod)| pod.created.pod.clone()).collect()
}

/// Returns the numbers of the last attempts of all pods, which a report may explain.
pub fn last_attempts(decisions: &[Decided]) -> BTreeSet<u64> {
    let last: BTreeMap<&str, u64> = decisions.iter().map(|decided| (decided.pod.as_str(), decided.number)).collect();
    last.into_values().collect()
}

fn waited_us(summary: &Summary, pod: &PodRow) -> u64 {
    let end_us = summary.samples.last().map_or(0, |sample| sample.at_us);
    pod.scheduled_us.or(pod.deleted_us).unwrap_or(end_us).saturating_sub(pod.created_us)
}

/// Adds a table of the pods, and below each the attempts.
pub fn add(html: &mut Html, of: &[&Outcome]) {
    let all = of.iter().flat_map(|outcome| outcome.summary.pods.iter().map(move |pod| (*outcome, pod)));
    let mut pods: Vec<_> = all.map(|(outcome, pod)| (waited_us(&outcome.summary, pod), outcome, pod)).collect();
    // A pod that got a node at once needs no explanation.
    pods.retain(|(waited_us, _, pod)| *waited_us >= NOTABLE_US || pod.failed_attempts > 0);
    pods.sort_by_cached_key(|(waited_us, outcome, pod)| {
        (Reverse(*waited_us), outcome.policy.clone(), outcome.seed, pod.created.pod.clone())
    });
    pods.truncate(PODS);
    if pods.is_empty() {
        return;
    }
    html.line("<h3>Pods that waited longest</h3>\n<table class=\"waits\">");
    html.line("<tr><th>pod</th><th>policy</th><th>seed</th><th>waited (s)</th><th>node</th><th>attempts</th></tr>");
    for (waited_us, outcome, pod) in pods {
        let attempts: Vec<&Decided> =
            outcome.decisions.iter().filter(|decided| decided.pod == pod.created.pod).collect();
        let node = if pod.scheduled_us.is_some() { pod.last_node.as_str() } else { "none" };
        html.add(format_args!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            escaped(&pod.created.pod),
            escaped(&outcome.policy),
            outcome.seed,
            number_text(seconds(waited_us)),
            escaped(node),
            attempts.len().max(usize::try_from(pod.failed_attempts).unwrap_or(usize::MAX)),
        ));
        html.add(format_args!(
            "<tr><td class=\"why\" colspan=\"6\"><ul>{}</ul></td></tr>\n",
            why(pod, &attempts, &outcome.explained)
        ));
    }
    html.line("</table>");
}

/// Returns list items with what was said in each attempt. Attempts in a row that say the same are one item.
fn why(pod: &PodRow, attempts: &[&Decided], explained: &BTreeMap<u64, Explained>) -> String {
    let mut said: Vec<(u64, u64, &Decided)> = Vec::new();
    for decided in attempts.iter().copied() {
        match said.last_mut() {
            Some((_, times, last)) if last.reason == decided.reason && last.node == decided.node => {
                (*times, *last) = (*times + 1, decided);
            }
            _ => said.push((decided.at_us, 1, decided)),
        }
    }
    if said.is_empty() {
        let last = if pod.last_reason.is_empty() { "not tried" } else { pod.last_reason.as_str() };
        return format!("<li>{}</li>", escaped(last));
    }
    let item = |(at_us, times, decided): &(u64, u64, &Decided)| {
        let result = if decided.node.is_empty() { decided.result.as_str() } else { decided.node.as_str() };
        let times = if *times > 1 { format!(", {times} times") } else { String::new() };
        let at = number_text(seconds(*at_us));
        let nodes = explained.get(&decided.number).map(Explained::items).filter(|items| !items.is_empty());
        let nodes = nodes.map(|items| format!("<ul>{items}</ul>")).unwrap_or_default();
        format!("<li>{at} s{times}: <b>{}</b>: {}{nodes}</li>", escaped(result), escaped(&decided.reason))
    };
    if said.len() <= ATTEMPTS {
        return said.iter().map(item).collect();
    }
    let (first, last) = (&said[..ATTEMPTS / 2], &said[said.len() - ATTEMPTS / 2..]);
    let left_out = said.len() - first.len() - last.len();
    let (first, last): (String, String) = (first.iter().map(item).collect(), last.iter().map(item).collect());
    format!("{first}<li>… {left_out} more</li>{last}")
}
