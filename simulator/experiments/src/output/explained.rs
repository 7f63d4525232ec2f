//! `Explained`: what the plugins said of the nodes in one attempt, summed up for a report. It comes from `verdicts.parquet`.

use crate::decision::Verdict;
use crate::output::html::escaped;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Nodes whose scores are shown: the best, and the chosen one.
const BEST: usize = 3;

/// One attempt. Its size depends on the number of reasons, and no more on that of the nodes once it is `finished`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explained {
    /// The nodes that a plugin has rejected, by the plugin and its reasons: their number, and the first of them.
    rejected: BTreeMap<(String, String), (u64, String)>,
    scored: BTreeMap<String, Scored>,
}

/// A node that has scores.
#[derive(Clone, Debug, Default, PartialEq)]
struct Scored {
    is_chosen: bool,
    total: i64,
    /// Plugins with their normalised score and its weight.
    parts: Vec<(String, i64, i64)>,
}

impl Explained {
    /// Adds a plugin's word on a node. Words come in the order of their rows.
    pub fn add(&mut self, verdict: Verdict) {
        let Verdict { node, chosen, point, plugin, result, reasons, normalised, weight, .. } = verdict;
        if point == "Filter" && result != "Success" {
            let (count, _) = self.rejected.entry((plugin, reasons)).or_insert((0, node));
            *count += 1;
        } else if let (Some(score), Some(weight)) = (normalised, weight) {
            let scored = self.scored.entry(node).or_default();
            scored.is_chosen = chosen;
            scored.total += score * weight;
            scored.parts.push((plugin, score, weight));
        }
    }

    /// Forgets the nodes that are not shown.
    pub fn finished(mut self) -> Self {
        let mut totals: Vec<(Reverse<i64>, String)> =
            self.scored.iter().map(|(node, scored)| (Reverse(scored.total), node.clone())).collect();
        totals.sort();
        for (_, node) in totals.into_iter().skip(BEST) {
            if !self.scored[&node].is_chosen {
                self.scored.remove(&node);
            }
        }
        self
    }

    /// Returns list items: why nodes were rejected, the most frequent reason first, and the scores of the best nodes.
    pub fn items(&self) -> String {
        let mut rejected: Vec<_> = self.rejected.iter().collect();
        rejected.sort_by_key(|(why, (count, _))| (Reverse(*count), *why));
        let rejected = rejected.into_iter().map(|((plugin, reasons), (count, node))| {
            let nodes = if *count == 1 { node.clone() } else { format!("{count} nodes, such as {node}") };
            format!("<li>{}: {}: {}</li>", escaped(plugin), escaped(reasons), escaped(&nodes))
        });
        let mut scored: Vec<_> = self.scored.iter().collect();
        scored.sort_by_key(|(node, scored)| (Reverse(scored.total), *node));
        let scored = scored.into_iter().map(|(node, scored)| {
            let node = if scored.is_chosen { format!("<b>{}</b>", escaped(node)) } else { escaped(node) };
            let part = |(plugin, score, weight): &(String, i64, i64)| match weight {
                1 => format!("{} {score}", escaped(plugin)),
                weight => format!("{} {score} · {weight}", escaped(plugin)),
            };
            let parts: Vec<String> = scored.parts.iter().map(part).collect();
            format!("<li>{node}: {} = {}</li>", scored.total, parts.join(" + "))
        });
        rejected.chain(scored).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(node: &str, plugin: &str, said: Result<(i64, i64), &str>) -> Verdict {
        let of =
            Verdict { node: node.to_owned(), plugin: plugin.to_owned(), chosen: node == "n-5", ..Verdict::default() };
        match said {
            Ok((score, weight)) => Verdict {
                point: "Score".to_owned(),
                result: "Success".to_owned(),
                normalised: Some(score),
                weight: Some(weight),
                ..of
            },
            Err(why) => Verdict {
                point: "Filter".to_owned(),
                result: "Unschedulable".to_owned(),
                reasons: why.to_owned(),
                ..of
            },
        }
    }

    #[test]
    fn reasons_are_counted_and_the_best_nodes_shown() {
        let mut explained = Explained::default();
        explained.add(verdict("n-0", "TaintToleration", Err("untolerated taint {<a>}")));
        for node in ["n-1", "n-2"] {
            explained.add(verdict(node, "NodeResourcesFit", Err("Insufficient cpu")));
        }
        for (at, score) in [(3, 10), (4, 40), (5, 20), (6, 50), (7, 30)] {
            explained.add(verdict(&format!("n-{at}"), "Spread", Ok((score, 2))));
            explained.add(verdict(&format!("n-{at}"), "Fit", Ok((1, 1))));
        }
        let items = explained.finished().items().replace("</li>", "</li>\n");
        expect_test::expect![[r#"
            <li>NodeResourcesFit: Insufficient cpu: 2 nodes, such as n-1</li>
            <li>TaintToleration: untolerated taint {&lt;a&gt;}: n-0</li>
            <li>n-6: 101 = Spread 50 · 2 + Fit 1</li>
            <li>n-4: 81 = Spread 40 · 2 + Fit 1</li>
            <li>n-7: 61 = Spread 30 · 2 + Fit 1</li>
            <li><b>n-5</b>: 41 = Spread 20 · 2 + Fit 1</li>
        "#]]
        .assert_eq(&items);
    }
}
