//! Checks a decision of the scheduler.

use crate::{Cluster, PluginScores, Settings};
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod};
use std::collections::{BTreeMap, BTreeSet};

/// A decision of the scheduler, as its cycle or an explanation has it.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    pub node: String,
    /// The nodes on which the pod fits, as far as the search went.
    pub feasible: Vec<String>,
    /// True if the search judged all nodes.
    pub is_complete: bool,
    /// The normalized scores by plugin, in the order of `feasible`; empty if only one node is feasible. `None` if nobody
    /// has recorded them.
    pub scores: Option<BTreeMap<String, Vec<i64>>>,
}

impl Cluster {
    /// Returns everything that is wrong with a decision; nothing for one that the documentation allows.
    pub fn check(&self, pod: &Pod, settings: &Settings, decision: &Decision) -> Vec<String> {
        let feasible: BTreeSet<&str> = decision.feasible.iter().map(String::as_str).collect();
        let is_judged = |node: &Node| decision.is_complete || feasible.contains(node.name());
        let mut wrong = Vec::new();
        for (name, verdict) in &self.verdicts(pod, settings, is_judged) {
            let is_feasible = feasible.contains(name.as_str());
            match verdict {
                Some(rejection) if is_feasible => wrong.push(format!("the pod does not fit on {name}: {rejection}")),
                None if !is_feasible && decision.is_complete => wrong.push(format!("the pod fits on {name} too")),
                _ => {}
            }
        }
        let unknown = decision.feasible.iter().filter(|name| !self.nodes.contains_key(*name));
        wrong.extend(unknown.map(|name| format!("{name} does not exist")));
        if !feasible.contains(decision.node.as_str()) {
            wrong.push(format!("{} is not one of the feasible nodes", decision.node));
        }
        if !wrong.is_empty() || decision.feasible.len() < 2 {
            return wrong;
        }
        let fit: Vec<&Node> =
            decision.feasible.iter().filter_map(|name| self.nodes.get(name)).map(|it| &**it).collect();
        let expected = self.score(pod, settings, &fit);
        if let Some(scores) = &decision.scores {
            wrong.extend(differences(settings, &expected, scores, &fit));
        }
        let total =
            |name: &str| -> i64 { expected.iter().map(|one| one.weight.saturating_mul(one.scores[name])).sum() };
        let most = decision.feasible.iter().map(|name| total(name)).max();
        if settings.unknown().is_empty() && Some(total(&decision.node)) != most {
            wrong.push(format!("{} is not among the best", decision.node));
        }
        wrong
    }
}

/// Returns the differences between the scores of a decision and those that the nodes should have.
fn differences(
    settings: &Settings,
    expected: &[PluginScores],
    scores: &BTreeMap<String, Vec<i64>>,
    fit: &[&Node],
) -> Vec<String> {
    let mut wrong = Vec::new();
    for one in expected {
        let expected: Vec<i64> = fit.iter().map(|node| one.scores[node.name()]).collect();
        match scores.get(&one.plugin) {
            Some(scores) if *scores == expected => {}
            Some(scores) => wrong.push(format!("{} scores {scores:?} and not {expected:?}", one.plugin)),
            None => wrong.push(format!("{} does not score", one.plugin)),
        }
    }
    let unknown = settings.unknown();
    let is_known = |plugin: &String| expected.iter().any(|one| one.plugin == *plugin);
    let superfluous = scores.keys().filter(|it| !is_known(it) && !unknown.contains(&it.as_str()));
    wrong.extend(superfluous.map(|plugin| format!("{plugin} has nothing to score")));
    wrong
}
