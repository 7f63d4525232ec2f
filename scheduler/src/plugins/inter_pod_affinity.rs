//! InterPodAffinity: pods that want to be, or must not be, in the same topology domain as others.
//!
//! Corresponds to pkg/scheduler/framework/plugins/interpodaffinity.

use crate::cache::{Namespaces, NodeInfo, Snapshot};
use crate::framework::{
    ClusterEvent, CycleState, Filter, MAX_NODE_SCORE, Plugin, PreFilter, PreFiltered, PreScore, PreScored, Rejection,
    Score,
};
use crate::pod_info::{AffinityTerm, PodInfo};
use std::collections::BTreeMap;

pub struct InterPodAffinity;

const NAME: &str = "InterPodAffinity";
const SCORE: &str = "InterPodAffinity/score";
/// A required affinity of a pod that runs already counts this much when another pod is scored.
const HARD_POD_AFFINITY_WEIGHT: i64 = 1;

/// A number for each value of each topology key.
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

    /// Nothing is counted anywhere.
    fn is_zero(&self) -> bool {
        self.0.values().flat_map(BTreeMap::values).all(|sum| *sum == 0)
    }
}

/// What PreFilter counts.
#[derive(Clone, Debug, Default)]
struct Counts {
    /// Pods whose anti-affinity forbids the pod in their domain.
    forbidden_by_others: Domains,
    /// Pods that match all of the pod's affinity terms.
    wanted: Domains,
    /// Pods that match a term of its anti-affinity.
    unwanted: Domains,
    /// The pod would satisfy its own affinity: the first of a group has to start somewhere.
    wants_itself: bool,
    namespaces: Namespaces,
}

impl Counts {
    /// What `other`, on `node`, has against the pod, `times` over.
    fn count_antipathy(&mut self, pod: &PodInfo, other: &PodInfo, node: &NodeInfo, times: i64) {
        let labels = self.namespaces.labels(pod.namespace());
        for term in other.required_anti_affinity.iter().filter(|term| term.matches(pod, labels)) {
            self.forbidden_by_others.add(node, &term.topology_key, times);
        }
    }

    /// What the pod requires of its company, as far as `other`, on `node`, has to do with it.
    fn count_company(&mut self, pod: &PodInfo, other: &PodInfo, node: &NodeInfo, times: i64) {
        let labels = self.namespaces.labels(other.namespace());
        if pod.required_affinity.iter().all(|term| term.matches(other, labels)) {
            for term in &pod.required_affinity {
                self.wanted.add(node, &term.topology_key, times);
            }
        }
        for term in pod.required_anti_affinity.iter().filter(|term| term.matches(other, labels)) {
            self.unwanted.add(node, &term.topology_key, times);
        }
    }
}

impl Plugin for InterPodAffinity {
    fn name(&self) -> &'static str {
        NAME
    }

    fn is_helped_by(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        let wants = |other: &PodInfo| {
            !pod.required_affinity.is_empty() && pod.required_affinity.iter().all(|term| term.may_match(other))
        };
        let repels = |other: &PodInfo| pod.required_anti_affinity.iter().any(|term| term.may_match(other));
        let is_repelled_by = |other: &PodInfo| other.required_anti_affinity.iter().any(|term| term.may_match(pod));
        match event {
            ClusterEvent::AssignedPodAdded(other) => wants(other),
            ClusterEvent::AssignedPodUpdated { old, new } => !wants(old) && wants(new) || repels(old) && !repels(new),
            ClusterEvent::AssignedPodDeleted(other) => repels(other) || is_repelled_by(other) || wants(other),
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
    fn pre_filter(&self, state: &mut CycleState, pod: &PodInfo, snapshot: &Snapshot) -> Result<PreFiltered, Rejection> {
        let mut counts = Counts { namespaces: snapshot.namespaces().clone(), ..Counts::default() };
        for node in snapshot.with_required_anti_affinity() {
            node.pods.iter().for_each(|other| counts.count_antipathy(pod, other, node, 1));
        }
        let nothing_required = pod.required_affinity.is_empty() && pod.required_anti_affinity.is_empty();
        if nothing_required && counts.forbidden_by_others.is_zero() {
            return Ok(PreFiltered::Skip);
        }
        if !nothing_required {
            for node in snapshot.nodes() {
                node.pods.iter().for_each(|other| counts.count_company(pod, other, node, 1));
            }
        }
        let own_labels = snapshot.namespaces().labels(pod.namespace());
        counts.wants_itself = pod.required_affinity.iter().all(|term| term.matches(pod, own_labels));
        state.write(NAME, counts);
        Ok(PreFiltered::AllNodes)
    }

    fn add_pod(&self, state: &mut CycleState, pod: &PodInfo, added: &PodInfo, node: &NodeInfo) {
        if let Some(counts) = state.change::<Counts>(NAME) {
            counts.count_antipathy(pod, added, node, 1);
            counts.count_company(pod, added, node, 1);
        }
    }

    fn remove_pod(&self, state: &mut CycleState, pod: &PodInfo, removed: &PodInfo, node: &NodeInfo) {
        if let Some(counts) = state.change::<Counts>(NAME) {
            counts.count_antipathy(pod, removed, node, -1);
            counts.count_company(pod, removed, node, -1);
        }
    }
}

impl Filter for InterPodAffinity {
    fn filter(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        let Some(counts) = state.read::<Counts>(NAME) else { return Ok(()) };
        let terms = &pod.required_affinity;
        let has_domains = terms.iter().all(|term| node.label(&term.topology_key).is_some());
        let company = terms.iter().all(|term| counts.wanted.of(node, &term.topology_key) > 0);
        let first_of_group = counts.wanted.is_zero() && counts.wants_itself;
        if !(has_domains && (company || first_of_group)) {
            return Err(Rejection::unresolvable(NAME, "node(s) didn't match pod affinity rules"));
        }
        if pod.required_anti_affinity.iter().any(|term| counts.unwanted.of(node, &term.topology_key) > 0) {
            return Err(Rejection::unschedulable(NAME, "node(s) didn't match pod anti-affinity rules"));
        }
        if counts.forbidden_by_others.0.keys().any(|key| counts.forbidden_by_others.of(node, key) > 0) {
            let reason = "node(s) didn't satisfy existing pods anti-affinity rules";
            return Err(Rejection::unschedulable(NAME, reason));
        }
        Ok(())
    }
}

impl PreScore for InterPodAffinity {
    fn pre_score(&self, state: &mut CycleState, pod: &PodInfo, snapshot: &Snapshot, _: &[&NodeInfo]) -> PreScored {
        let prefers = !(pod.preferred_affinity.is_empty() && pod.preferred_anti_affinity.is_empty());
        let mut points = Domains::default();
        let mut count = |node: &NodeInfo| {
            for other in &node.pods {
                score_pair(&mut points, pod, other, node, snapshot);
            }
        };
        if prefers {
            snapshot.nodes().iter().for_each(|node| count(node));
        } else {
            snapshot.with_affinity().for_each(|node| count(node));
        }
        if points.0.is_empty() {
            return PreScored::Skip;
        }
        state.write(SCORE, points);
        PreScored::Score
    }
}

/// What `other`, on `node`, adds to the points of its domains: the pod's wishes about it and its wishes about the pod.
fn score_pair(points: &mut Domains, pod: &PodInfo, other: &PodInfo, node: &NodeInfo, snapshot: &Snapshot) {
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
    for term in &other.required_affinity {
        add(term, pod, HARD_POD_AFFINITY_WEIGHT);
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

    /// Points may be negative: the range between the least and the most becomes 0 to 100.
    fn normalize(&self, _: &CycleState, _: &PodInfo, _: &[&NodeInfo], scores: &mut [i64]) {
        let (least, most) = (scores.iter().copied().min().unwrap_or(0), scores.iter().copied().max().unwrap_or(0));
        for score in scores.iter_mut() {
            let part = if most > least { (*score - least) as f64 / (most - least) as f64 } else { 0.0 };
            *score = (MAX_NODE_SCORE as f64 * part) as i64;
        }
    }
}
