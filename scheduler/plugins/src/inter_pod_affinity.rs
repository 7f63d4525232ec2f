//! InterPodAffinity places pods into the same topology domain as others, or into different ones.
//!
//! Corresponds to pkg/scheduler/framework/plugins/interpodaffinity.

use scheduling_framework::cache::{Namespaces, NodeInfo, Snapshot};
use scheduling_framework::configuration::args::InterPodAffinityArgs;
use scheduling_framework::pod_info::{AffinityTerm, PodInfo};
use scheduling_framework::{
    ClusterEvent, CycleState, Filter, MAX_NODE_SCORE, Plugin, PreFilter, PreFilterResult, PreScore, PreScoreResult,
    Rejection, Score,
};
use std::collections::BTreeMap;

pub struct InterPodAffinity {
    pub args: InterPodAffinityArgs,
}

const NAME: &str = "InterPodAffinity";
const SCORE: &str = "InterPodAffinity/score";

/// A count for each value of each topology key.
#[derive(Clone, Debug, Default)]
struct Domains(BTreeMap<String, BTreeMap<String, i64>>);

impl Domains {
    fn add(&mut self, node: &NodeInfo, topology_key: &str, amount: i64) {
        if let Some(value) = node.label(topology_key) {
            *self.0.entry(topology_key.to_owned()).or_default().entry(value.to_owned()).or_insert(0) += amount;
        }
    }

    fn of(&self, node: &NodeInfo, topology_key: &str) -> i64 {
        let values = self.0.get(topology_key);
        node.label(topology_key).and_then(|value| values?.get(value)).copied().unwrap_or(0)
    }

    fn sum(&self, node: &NodeInfo) -> i64 {
        self.0.keys().map(|key| self.of(node, key)).sum()
    }

    /// Returns true if all counts are zero.
    fn is_zero(&self) -> bool {
        self.0.values().flat_map(BTreeMap::values).all(|sum| *sum == 0)
    }
}

/// The counts of PreFilter.
#[derive(Clone, Debug, Default)]
struct Counts {
    /// Existing pods whose anti-affinity terms match the pod.
    existing_anti_affinity: Domains,
    /// Existing pods that match all affinity terms of the pod.
    affinity: Domains,
    /// Existing pods that match an anti-affinity term of the pod.
    anti_affinity: Domains,
    /// True if the pod matches its own affinity terms. It may then be the first pod of its group.
    matches_itself: bool,
    namespaces: Namespaces,
}

impl Counts {
    /// Adds `times` for each anti-affinity term of `other`, on `node`, that matches the pod.
    fn count_existing_anti_affinity(&mut self, pod: &PodInfo, other: &PodInfo, node: &NodeInfo, times: i64) {
        let labels = self.namespaces.labels(pod.namespace());
        for term in other.required_anti_affinity.iter().filter(|term| term.matches(pod, labels)) {
            self.existing_anti_affinity.add(node, &term.topology_key, times);
        }
    }

    /// Adds `times` for each term of the pod that matches `other`, on `node`. Affinity terms count only if all match.
    fn count_incoming(&mut self, pod: &PodInfo, other: &PodInfo, node: &NodeInfo, times: i64) {
        let labels = self.namespaces.labels(other.namespace());
        if pod.required_affinity.iter().all(|term| term.matches(other, labels)) {
            for term in &pod.required_affinity {
                self.affinity.add(node, &term.topology_key, times);
            }
        }
        for term in pod.required_anti_affinity.iter().filter(|term| term.matches(other, labels)) {
            self.anti_affinity.add(node, &term.topology_key, times);
        }
    }
}

impl Plugin for InterPodAffinity {
    fn name(&self) -> &'static str {
        NAME
    }

    fn may_become_schedulable(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        let matches = |other: &PodInfo| {
            !pod.required_affinity.is_empty() && pod.required_affinity.iter().all(|term| term.may_match(other))
        };
        let repels = |other: &PodInfo| pod.required_anti_affinity.iter().any(|term| term.may_match(other));
        let is_repelled_by = |other: &PodInfo| other.required_anti_affinity.iter().any(|term| term.may_match(pod));
        match event {
            ClusterEvent::AssignedPodAdded(other) => matches(other),
            ClusterEvent::AssignedPodUpdated { old, new } => {
                !matches(old) && matches(new) || repels(old) && !repels(new)
            }
            ClusterEvent::AssignedPodDeleted(other) => repels(other) || is_repelled_by(other) || matches(other),
            ClusterEvent::NodeAdded(node) => {
                let has = |key: &str| node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(key));
                pod.required_affinity.iter().all(|term| has(&term.topology_key))
            }
            ClusterEvent::NodeUpdated { old, new } => old.metadata.labels != new.metadata.labels,
            ClusterEvent::PodUpdated { old, .. } => old.labels() != pod.labels(),
            _ => false,
        }
    }
}

impl PreFilter for InterPodAffinity {
    fn pre_filter(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
    ) -> Result<PreFilterResult, Rejection> {
        let mut counts = Counts { namespaces: snapshot.namespaces().clone(), ..Counts::default() };
        for node in snapshot.with_required_anti_affinity() {
            node.pods.iter().for_each(|other| counts.count_existing_anti_affinity(pod, other, node, 1));
        }
        let nothing_required = pod.required_affinity.is_empty() && pod.required_anti_affinity.is_empty();
        if nothing_required && counts.existing_anti_affinity.is_zero() {
            return Ok(PreFilterResult::Skip);
        }
        if !nothing_required {
            for node in snapshot.nodes() {
                node.pods.iter().for_each(|other| counts.count_incoming(pod, other, node, 1));
            }
        }
        let own_labels = snapshot.namespaces().labels(pod.namespace());
        counts.matches_itself = pod.required_affinity.iter().all(|term| term.matches(pod, own_labels));
        state.write(NAME, counts);
        Ok(PreFilterResult::AllNodes)
    }

    fn add_pod(&self, state: &mut CycleState, pod: &PodInfo, added: &PodInfo, node: &NodeInfo) {
        if let Some(counts) = state.read_mut::<Counts>(NAME) {
            counts.count_existing_anti_affinity(pod, added, node, 1);
            counts.count_incoming(pod, added, node, 1);
        }
    }

    fn remove_pod(&self, state: &mut CycleState, pod: &PodInfo, removed: &PodInfo, node: &NodeInfo) {
        if let Some(counts) = state.read_mut::<Counts>(NAME) {
            counts.count_existing_anti_affinity(pod, removed, node, -1);
            counts.count_incoming(pod, removed, node, -1);
        }
    }
}

impl Filter for InterPodAffinity {
    fn filter(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        let Some(counts) = state.read::<Counts>(NAME) else { return Ok(()) };
        let terms = &pod.required_affinity;
        let has_domains = terms.iter().all(|term| node.label(&term.topology_key).is_some());
        let matches = terms.iter().all(|term| counts.affinity.of(node, &term.topology_key) > 0);
        let first_of_group = counts.affinity.is_zero() && counts.matches_itself;
        if !(has_domains && (matches || first_of_group)) {
            return Err(Rejection::unresolvable(NAME, "node(s) didn't match pod affinity rules"));
        }
        if pod.required_anti_affinity.iter().any(|term| counts.anti_affinity.of(node, &term.topology_key) > 0) {
            return Err(Rejection::unschedulable(NAME, "node(s) didn't match pod anti-affinity rules"));
        }
        if counts.existing_anti_affinity.0.keys().any(|key| counts.existing_anti_affinity.of(node, key) > 0) {
            let reason = "node(s) didn't satisfy existing pods anti-affinity rules";
            return Err(Rejection::unschedulable(NAME, reason));
        }
        Ok(())
    }
}

impl PreScore for InterPodAffinity {
    fn pre_score(&self, state: &mut CycleState, pod: &PodInfo, snapshot: &Snapshot, _: &[&NodeInfo]) -> PreScoreResult {
        let prefers = !(pod.preferred_affinity.is_empty() && pod.preferred_anti_affinity.is_empty());
        if self.args.ignore_preferred_terms_of_existing_pods && !prefers {
            return PreScoreResult::Skip;
        }
        let (mut points, hard_weight) = (Domains::default(), i64::from(self.args.hard_pod_affinity_weight));
        let mut count = |node: &NodeInfo| {
            for other in &node.pods {
                score_pair(&mut points, hard_weight, (pod, other), node, snapshot);
            }
        };
        if prefers {
            snapshot.nodes().iter().for_each(|node| count(node));
        } else {
            snapshot.with_affinity().for_each(|node| count(node));
        }
        if points.0.is_empty() {
            return PreScoreResult::Skip;
        }
        state.write(SCORE, points);
        PreScoreResult::Score
    }
}

/// Adds the points of a pair of pods to the domains of `node`, where `other` is: for the preferences of both pods, and
/// `hard_weight` for each required affinity of `other`.
fn score_pair(
    points: &mut Domains,
    hard_weight: i64,
    (pod, other): (&PodInfo, &PodInfo),
    node: &NodeInfo,
    snapshot: &Snapshot,
) {
    let mut add = |term: &AffinityTerm, of: &PodInfo, weight: i64| {
        if term.matches(of, snapshot.namespaces().labels(of.namespace())) {
            points.add(node, &term.topology_key, weight);
        }
    };
    for (weight, term) in &pod.preferred_affinity {
        add(term, other, *weight);
    }
    for (weight, term) in &pod.preferred_anti_affinity {
        add(term, other, -weight);
    }
    for term in other.required_affinity.iter().filter(|_| hard_weight > 0) {
        add(term, pod, hard_weight);
    }
    for (weight, term) in &other.preferred_affinity {
        add(term, pod, *weight);
    }
    for (weight, term) in &other.preferred_anti_affinity {
        add(term, pod, -weight);
    }
}

impl Score for InterPodAffinity {
    fn score(&self, state: &CycleState, _pod: &PodInfo, node: &NodeInfo, _snapshot: &Snapshot) -> i64 {
        state.read::<Domains>(SCORE).map_or(0, |points| points.sum(node))
    }

    /// Scales the range from the lowest to the highest score to 0 to 100. Scores may be negative.
    fn normalize(&self, _: &CycleState, _: &PodInfo, _: &[&NodeInfo], scores: &mut [i64]) {
        let (least, most) = (scores.iter().copied().min().unwrap_or(0), scores.iter().copied().max().unwrap_or(0));
        for score in scores.iter_mut() {
            let part = if most > least { (*score - least) as f64 / (most - least) as f64 } else { 0.0 };
            *score = (MAX_NODE_SCORE as f64 * part) as i64;
        }
    }
}
