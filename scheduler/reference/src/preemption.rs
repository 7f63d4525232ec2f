//! Preemption: the pods that have to leave a node so that a pod of higher priority fits, and the nodes where that costs the
//! least.

use crate::evaluation::{Judge, priority};
use crate::selector::{is_empty, selects};
use crate::{Cluster, Settings, labels, spec};
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod};
use proto::kinds::jiff::Timestamp;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A node on which the pod would fit without the victims.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Uids of the victims, the most important first.
    pub victims: Vec<String>,
    /// Number of victims that a disruption budget protects.
    pub violations: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preemption {
    /// Candidates by node.
    pub candidates: BTreeMap<String, Candidate>,
    /// The nodes that cost the least.
    pub best: BTreeSet<String>,
}

/// Orders pods: the highest priority first, then those that run the longest.
fn importance(pod: &Pod) -> (Reverse<i32>, Timestamp, String) {
    (Reverse(priority(pod)), started(pod), pod.key())
}

fn started(pod: &Pod) -> Timestamp {
    pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map_or(Timestamp::MAX, |time| time.0)
}

/// Returns true if the pod leaves because it was preempted.
fn is_leaving(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let target = conditions.into_iter().find(|condition| condition.type_ == "DisruptionTarget");
    pod.is_deleting()
        && target.is_some_and(|it| it.status == "True" && it.reason.as_deref() == Some("PreemptionByScheduler"))
}

impl Cluster {
    /// Returns the victims on each node, for a pod that fits nowhere. There are no candidates if the pod may not preempt.
    ///
    /// The fewest violated budgets decide, then the lowest highest priority, the lowest sum of priorities, the fewest
    /// victims, and the latest start of the most important ones.
    pub fn preempt(&self, pod: &Pod, settings: &Settings) -> Preemption {
        let verdicts = self.verdicts(pod, settings, |_| true);
        let Ok(judge) = Judge::of(self, settings, pod) else { return Preemption::default() };
        if !self.may_preempt(pod, &verdicts) {
            return Preemption::default();
        }
        let may_help = |name: &str| verdicts.get(name).and_then(Option::as_ref).is_some_and(|it| it.is_resolvable);
        let mut found = BTreeMap::new();
        for (name, node) in self.nodes.iter().filter(|(name, _)| may_help(name)) {
            if let Some((victims, violations)) = self.victims_on(&judge, pod, node) {
                found.insert(name.clone(), (victims, violations));
            }
        }
        let least = found.values().map(cost).min();
        let best = found.iter().filter(|(_, candidate)| Some(cost(candidate)) == least);
        let best = best.map(|(name, _)| name.clone()).collect();
        let named = |(victims, violations): (Vec<Arc<Pod>>, usize)| Candidate {
            victims: victims.iter().map(|victim| victim.uid().to_owned()).collect(),
            violations,
        };
        Preemption { candidates: found.into_iter().map(|(name, it)| (name, named(it))).collect(), best }
    }

    /// Returns false if the pod's policy forbids it, or if the victims of its last preemption still leave.
    fn may_preempt(&self, pod: &Pod, verdicts: &BTreeMap<String, Option<crate::Rejection>>) -> bool {
        if spec(pod).preemption_policy.as_deref() == Some("Never") {
            return false;
        }
        let nominated =
            pod.status.as_ref().and_then(|status| status.nominated_node_name.as_deref()).unwrap_or_default();
        let Some(node) = self.nodes.get(nominated) else { return true };
        let is_hopeless = verdicts.get(nominated).and_then(Option::as_ref).is_some_and(|it| !it.is_resolvable);
        is_hopeless || !self.pods_on(node).any(|other| priority(other) < priority(pod) && is_leaving(other))
    }

    /// Removes all pods of lower priority, and takes back as many as fit beside the pod: first those that a budget protects,
    /// and of both kinds the most important first.
    fn victims_on(&self, judge: &Judge<'_>, pod: &Pod, node: &Node) -> Option<(Vec<Arc<Pod>>, usize)> {
        let mut lower: Vec<Arc<Pod>> =
            self.pods_on(node).filter(|other| priority(other) < priority(pod)).cloned().collect();
        lower.sort_by_key(|other| importance(other));
        let mut without = self.clone();
        lower.iter().for_each(|other| without.remove(other.uid()));
        let fits = |cluster: &Cluster| {
            let hypothetical = judge.in_cluster(cluster).ok()?;
            let rejection = cluster.with_nominated(&hypothetical, node).or_else(|| hypothetical.reject(node));
            rejection.is_none().then_some(())
        };
        fits(&without)?;
        let protected = self.protected(&lower);
        let (first, last): (Vec<_>, Vec<_>) = lower.into_iter().partition(|other| protected.contains(other.uid()));
        let (mut victims, mut violations) = (Vec::new(), 0);
        for other in first.into_iter().chain(last) {
            let mut with = without.clone();
            with.place(other.clone(), node.name());
            if fits(&with).is_some() {
                without = with;
            } else {
                violations += usize::from(protected.contains(other.uid()));
                victims.push(other);
            }
        }
        victims.sort_by_key(|victim| importance(victim));
        (!victims.is_empty()).then_some((victims, violations))
    }

    /// Returns the uids of pods whose eviction, in this order, violates a disruption budget.
    fn protected(&self, pods: &[Arc<Pod>]) -> BTreeSet<String> {
        let mut protected = BTreeSet::new();
        for budget in &self.budgets {
            let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            let status = budget.status.as_ref();
            let disrupted = status.and_then(|status| status.disrupted_pods.as_ref());
            let selects = |pod: &&Arc<Pod>| {
                pod.namespace() == budget.namespace()
                    && !is_empty(selector)
                    && !labels(pod).is_empty()
                    && selects(selector, labels(pod))
                    && !disrupted.is_some_and(|disrupted| disrupted.contains_key(pod.name()))
            };
            let allowed = status.and_then(|status| status.disruptions_allowed).unwrap_or(0);
            let allowed = usize::try_from(allowed).unwrap_or(0);
            protected.extend(pods.iter().filter(selects).skip(allowed).map(|pod| pod.uid().to_owned()));
        }
        protected
    }
}

/// Returns what a candidate costs. The first difference decides.
fn cost((victims, violations): &(Vec<Arc<Pod>>, usize)) -> (usize, i64, i64, usize, Reverse<Timestamp>) {
    let of = |pod: &Arc<Pod>| i64::from(priority(pod));
    let highest = victims.iter().map(of).max().unwrap_or(i64::MIN);
    // Priorities may be negative. The shift makes them positive, so that the sum grows with every victim.
    let sum = victims.iter().map(|pod| of(pod) + i64::from(i32::MAX) + 1).sum();
    let earliest = victims.iter().filter(|pod| of(pod) == highest).map(|pod| started(pod)).min();
    (*violations, highest, sum, victims.len(), Reverse(earliest.unwrap_or(Timestamp::MIN)))
}
