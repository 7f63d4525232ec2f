//! Checks a decision of the scheduler.

use crate::{Cluster, Settings};
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod};
use std::collections::BTreeMap;

/// A decision of the scheduler, as its cycle or an explanation has it.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    pub node: String,
    /// The nodes on which the pod fits, as far as the search went.
    pub feasible: Vec<String>,
    /// True if the search judged all nodes.
    pub is_complete: bool,
    /// The normalized scores by plugin, in the order of `feasible`; empty if only one node is feasible.
    pub scores: BTreeMap<String, Vec<i64>>,
}

impl Cluster {
    /// Returns everything that is wrong with a decision; nothing for one that the documentation allows.
    pub fn check(&self, pod: &Pod, settings: &Settings, decision: &Decision) -> Vec<String> {
        let verdicts = self.verdicts(pod, settings);
        let mut wrong = Vec::new();
        for (name, verdict) in &verdicts {
            let is_feasible = decision.feasible.contains(name);
            match verdict {
                Some(rejection) if is_feasible => wrong.push(format!("the pod does not fit on {name}: {rejection}")),
                None if !is_feasible && decision.is_complete => wrong.push(format!("the pod fits on {name} too")),
                _ => {}
            }
        }
        let unknown = decision.feasible.iter().filter(|name| !self.nodes.contains_key(*name));
        wrong.extend(unknown.map(|name| format!("{name} does not exist")));
        if !decision.feasible.contains(&decision.node) {
            wrong.push(format!("{} is not one of the feasible nodes", decision.node));
        }
        if !wrong.is_empty() || decision.feasible.len() < 2 {
            return wrong;
        }
        let fit: Vec<&Node> =
            decision.feasible.iter().filter_map(|name| self.nodes.get(name)).map(|it| &**it).collect();
        let expected = self.score(pod, settings, &fit);
        let in_order = |scores: &BTreeMap<String, i64>| fit.iter().map(|node| scores[node.name()]).collect::<Vec<_>>();
        for one in &expected {
            match decision.scores.get(&one.plugin) {
                Some(scores) if *scores == in_order(&one.scores) => {}
                Some(scores) => {
                    let expected = in_order(&one.scores);
                    wrong.push(format!("{} scores {scores:?} and not {expected:?}", one.plugin));
                }
                None => wrong.push(format!("{} does not score", one.plugin)),
            }
        }
        let is_known = |plugin: &String| expected.iter().any(|one| one.plugin == *plugin);
        let unknown = settings.unknown();
        let superfluous = decision.scores.keys().filter(|it| !is_known(it) && !unknown.contains(&it.as_str()));
        wrong.extend(superfluous.map(|plugin| format!("{plugin} has nothing to score")));
        let total =
            |name: &str| -> i64 { expected.iter().map(|one| one.weight.saturating_mul(one.scores[name])).sum() };
        let most = decision.feasible.iter().map(|name| total(name)).max();
        if unknown.is_empty() && Some(total(&decision.node)) != most {
            wrong.push(format!("{} is not among the best", decision.node));
        }
        wrong
    }
}
