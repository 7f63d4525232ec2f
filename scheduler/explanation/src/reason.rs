//! The sentence that says why an attempt ended as it did, from what the cycle has computed anyway.

use crate::attempt::{Attempt, Outcome};
use scheduling_framework::cache::Snapshot;
use scheduling_framework::cycle::{self, Decision};

/// Most plugins that are named.
const MAX_PLUGINS: usize = 4;

/// Returns why a node was chosen, or why none was. Runs no plugin.
///
/// ```text
/// 3 of 6 nodes fit; n1 has the highest total, 180 (BestFit 90·2), then n2 with 110
/// ```
pub fn reason(attempt: &Attempt, snapshot: &Snapshot) -> String {
    match &attempt.outcome {
        Outcome::Found(decision) => chosen(decision, snapshot),
        Outcome::NotFound { error, .. } => error.to_string(),
        Outcome::Failed(message) => message.clone(),
    }
}

fn chosen(decision: &Decision, snapshot: &Snapshot) -> String {
    let fit = format!("{} of {} nodes fit", decision.feasible.len(), decision.evaluated);
    let name = |at: usize| snapshot.nodes()[decision.feasible[at]].name();
    let chosen = (0..decision.feasible.len()).find(|at| name(*at) == decision.node);
    let Some(chosen) = chosen.filter(|_| !decision.scores.is_empty()) else { return fit };
    let totals = cycle::totals(&decision.scores, decision.feasible.len());
    let mut parts: Vec<(i64, String)> = decision
        .scores
        .iter()
        .map(|plugin| (plugin.scores[chosen] * plugin.weight, plugin))
        .filter(|(part, _)| *part != 0)
        .map(|(part, plugin)| (part, format!("{} {}·{}", plugin.plugin, plugin.scores[chosen], plugin.weight)))
        .collect();
    parts.sort_by(|(one, one_text), (other, other_text)| other.cmp(one).then_with(|| one_text.cmp(other_text)));
    let mut texts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    if texts.len() > MAX_PLUGINS {
        texts.truncate(MAX_PLUGINS);
        texts.push("…".to_owned());
    }
    let plugins = if texts.is_empty() { String::new() } else { format!(" ({})", texts.join(", ")) };
    let total = totals[chosen];
    let rest = (0..totals.len()).filter(|at| *at != chosen);
    let next = match rest.max_by(|one, other| totals[*one].cmp(&totals[*other]).then(other.cmp(one))) {
        None => String::new(),
        Some(next) if totals[next] == total => {
            format!(", drawn from {} nodes with it", totals.iter().filter(|other| **other == total).count())
        }
        Some(next) => format!(", then {} with {}", name(next), totals[next]),
    };
    format!("{fit}; {} has the highest total, {total}{plugins}{next}", decision.node)
}
