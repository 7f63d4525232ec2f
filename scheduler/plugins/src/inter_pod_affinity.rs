//! InterPodAffinity places pods into the same topology domain as others, or into different ones.
//!
//! Corresponds to pkg/scheduler/framework/plugins/interpodaffinity.

use crate::domain_tally::{Above, DomainTally, Simulated};
use crate::recent::Recent;
use scheduling_framework::cache::{Namespaces, NodeInfo, Snapshot};
use scheduling_framework::configuration::args::InterPodAffinityArgs;
use scheduling_framework::node_judge::FilterByNumber;
use scheduling_framework::per_shape::{PerShape, SumOfNodes};
use scheduling_framework::pod_info::{AffinityTerm, PodInfo};
use scheduling_framework::simulation_basis::{BasisOfNode, SimulationBasis};
use scheduling_framework::{
    ClusterEvent, CycleState, FeasibleNodes, Filter, MAX_NODE_SCORE, Plugin, PreFilter, PreFilterResult, PreScore,
    PreScoreResult, Rejection, Score,
};
use std::sync::Arc;

pub struct InterPodAffinity {
    args: InterPodAffinityArgs,
    /// The pods that matter to Filter, for each shape of pods.
    required: PerShape<(), RequiredCounts>,
    /// The points of Score, for each shape of pods.
    preferred: PerShape<i64, PreferredPoints>,
}

const NAME: &str = "InterPodAffinity";
const SCORE: &str = "InterPodAffinity/score";
const AFFINITY_MISMATCH: &str = "node(s) didn't match pod affinity rules";
const ANTI_AFFINITY_MISMATCH: &str = "node(s) didn't match pod anti-affinity rules";
const EXISTING_MISMATCH: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

impl InterPodAffinity {
    pub fn new(args: InterPodAffinityArgs) -> Self {
        Self { args, required: PerShape::default(), preferred: PerShape::default() }
    }
}

/// The pods that Filter counts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Group {
    /// Existing pods whose anti-affinity terms match the pod.
    ExistingAntiAffinity,
    /// Existing pods that match all affinity terms of the pod.
    Affinity,
    /// Existing pods that match an anti-affinity term of the pod.
    AntiAffinity,
}

/// Calls `count` with the group and the topology key of each term for which `other` counts. Affinity terms count only if all
/// match.
fn count_required<'t>(
    pod: &'t PodInfo,
    other: &'t PodInfo,
    namespaces: &Namespaces,
    mut count: impl FnMut(Group, &'t str),
) {
    let labels = namespaces.labels(pod.namespace());
    for term in other.required_anti_affinity.iter().filter(|term| term.matches(pod, labels)) {
        count(Group::ExistingAntiAffinity, &term.topology_key);
    }
    if !requires(pod) {
        return;
    }
    let labels = namespaces.labels(other.namespace());
    if pod.required_affinity.iter().all(|term| term.matches(other, labels)) {
        pod.required_affinity.iter().for_each(|term| count(Group::Affinity, &term.topology_key));
    }
    for term in pod.required_anti_affinity.iter().filter(|term| term.matches(other, labels)) {
        count(Group::AntiAffinity, &term.topology_key);
    }
}

fn requires(pod: &PodInfo) -> bool {
    !(pod.required_affinity.is_empty() && pod.required_anti_affinity.is_empty())
}

#[derive(Clone)]
struct RequiredCounts(DomainTally<Group>);

impl SumOfNodes<()> for RequiredCounts {
    const NEEDS_PODS: bool = true;

    fn empty(_: &PodInfo, (): &(), snapshot: &Snapshot) -> Self {
        Self(DomainTally::new(snapshot.nodes().len()))
    }

    fn follow(&mut self, snapshot: &Snapshot) {
        self.0.follow(snapshot);
    }

    fn recount(&mut self, pod: &PodInfo, (): &(), snapshot: &Snapshot, node: usize) {
        let (info, mut amounts) = (&snapshot.nodes()[node], Vec::new());
        if requires(pod) || info.with_required_anti_affinity > 0 {
            for other in &info.pods {
                count_required(pod, other, snapshot.namespaces(), |group, key| amounts.push((group, key, 1)));
            }
        }
        self.0.recount(snapshot, node, amounts.into_iter());
    }
}

/// The data of PreFilter.
#[derive(Clone)]
struct Required {
    counts: Arc<RequiredCounts>,
    simulated: Simulated<Group>,
    /// True if the pod matches its own affinity terms. It may then be the first pod of its group.
    matches_itself: bool,
    namespaces: Namespaces,
}

impl Required {
    fn sum(&self, group: Group, topology_key: &str, node: &NodeInfo) -> i64 {
        self.counts.0.sum_of(group, topology_key, node, &self.simulated)
    }

    fn may_be_first_of_group(&self) -> bool {
        self.matches_itself && self.counts.0.is_zero(Group::Affinity, &self.simulated)
    }

    /// Adds `times` for each term for which `other` counts on the node.
    fn simulate(&mut self, pod: &PodInfo, other: &PodInfo, node: &NodeInfo, times: i64) {
        let simulated = &mut self.simulated;
        count_required(pod, other, &self.namespaces, |group, key| simulated.add(group, key, node, times));
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
        if !requires(pod) && snapshot.with_required_anti_affinity().next().is_none() {
            return Ok(PreFilterResult::Skip);
        }
        let (counts, simulated) = (self.required.get(pod, (), snapshot), Simulated::default());
        if !requires(pod) && counts.0.is_zero(Group::ExistingAntiAffinity, &simulated) {
            return Ok(PreFilterResult::Skip);
        }
        let (namespaces, own_labels) = (snapshot.namespaces().clone(), snapshot.namespaces().labels(pod.namespace()));
        let matches_itself = pod.required_affinity.iter().all(|term| term.matches(pod, own_labels));
        state.write_until_reserve(NAME, Required { counts, simulated, matches_itself, namespaces });
        Ok(PreFilterResult::AllNodes)
    }

    fn add_pod(&self, state: &mut CycleState, pod: &PodInfo, added: &PodInfo, node: &NodeInfo) {
        if let Some(required) = state.read_mut::<Required>(NAME) {
            required.simulate(pod, added, node, 1);
        }
    }

    fn remove_pod(&self, state: &mut CycleState, pod: &PodInfo, removed: &PodInfo, node: &NodeInfo) {
        if let Some(required) = state.read_mut::<Required>(NAME) {
            required.simulate(pod, removed, node, -1);
        }
    }
}

impl Filter for InterPodAffinity {
    fn filter(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        let Some(required) = state.read::<Required>(NAME) else { return Ok(()) };
        let terms = &pod.required_affinity;
        let has_domains = terms.iter().all(|term| node.label(&term.topology_key).is_some());
        let matches = || terms.iter().all(|term| required.sum(Group::Affinity, &term.topology_key, node) > 0);
        if !(has_domains && (matches() || required.may_be_first_of_group())) {
            return Err(Rejection::unresolvable(NAME, AFFINITY_MISMATCH));
        }
        let repels = |term: &AffinityTerm| required.sum(Group::AntiAffinity, &term.topology_key, node) > 0;
        if pod.required_anti_affinity.iter().any(repels) {
            return Err(Rejection::unschedulable(NAME, ANTI_AFFINITY_MISMATCH));
        }
        let counted = required.counts.0.group(Group::ExistingAntiAffinity).map(|sums| sums.topology_key.as_str());
        let mut keys = counted.chain(required.simulated.keys(Group::ExistingAntiAffinity));
        if keys.any(|key| required.sum(Group::ExistingAntiAffinity, key, node) > 0) {
            return Err(Rejection::unschedulable(NAME, EXISTING_MISMATCH));
        }
        Ok(())
    }

    /// A sum counts if it is above zero. Whatever pods of the node do, it is if other nodes of the domain contribute to it.
    fn basis<'a>(&'a self, state: &'a CycleState, _: &'a PodInfo, _: &'a Snapshot) -> Option<SimulationBasis<'a>> {
        let required = state.read::<Required>(NAME).filter(|required| required.simulated.is_empty())?;
        let tally = &required.counts.0;
        let groups = [Group::ExistingAntiAffinity, Group::Affinity, Group::AntiAffinity];
        let sums: Vec<usize> = groups.iter().flat_map(|group| tally.numbered(*group)).map(|(at, _)| at).collect();
        let common = groups
            .iter()
            .flat_map(|group| tally.group(*group).map(move |sums| format!("{group:?} {}", sums.topology_key)))
            .collect();
        let of_node: BasisOfNode<'a> = Box::new(move |node, _, numbers| {
            numbers.extend(sums.iter().map(|sums| i64::from(tally.of_others(*sums, node) > 0)));
            // The first pod of a group may go anywhere.
            let mut affinity = tally.group(Group::Affinity);
            numbers.push(i64::from(affinity.any(|sums| sums.is_nonzero_elsewhere(node))));
        });
        Some(SimulationBasis { common, of_node })
    }

    fn by_number<'a>(
        &'a self,
        state: &'a CycleState,
        pod: &'a PodInfo,
        snapshot: &'a Snapshot,
    ) -> Option<FilterByNumber<'a>> {
        let required = state.read::<Required>(NAME).filter(|required| required.simulated.is_empty())?;
        let counts = &required.counts.0;
        let above = |key: &str, group: Group| Above::new(snapshot.topology(key), counts.get(group, key), 0);
        let of_terms = |terms: &[AffinityTerm], group: Group| -> Vec<_> {
            terms.iter().map(|term| above(&term.topology_key, group)).collect()
        };
        let affinity = of_terms(&pod.required_affinity, Group::Affinity);
        let anti_affinity = of_terms(&pod.required_anti_affinity, Group::AntiAffinity);
        let existing = counts.group(Group::ExistingAntiAffinity);
        let existing: Vec<_> = existing.map(|sums| above(&sums.topology_key, Group::ExistingAntiAffinity)).collect();
        let may_be_first_of_group = required.may_be_first_of_group();
        let reasons = [
            Rejection::unresolvable(NAME, AFFINITY_MISMATCH),
            Rejection::unschedulable(NAME, ANTI_AFFINITY_MISMATCH),
            Rejection::unschedulable(NAME, EXISTING_MISMATCH),
        ];
        Some(FilterByNumber::of_words(reasons, move |word, nodes| {
            let with_domains = affinity.iter().fold(nodes, |left, above| above.labelled(word, left));
            let matching = affinity.iter().fold(with_domains, |left, above| above.of(word, left));
            let near = if may_be_first_of_group { with_domains } else { matching };
            let far_from =
                |all: &[Above<'_, Group>], left: u64| all.iter().fold(0, |far, above| far | above.of(word, left));
            let repelled = far_from(&anti_affinity, near);
            let repelled_by_existing = far_from(&existing, near & !repelled);
            [nodes & !near, repelled, repelled_by_existing, 0]
        }))
    }
}

/// The points of each domain for Score.
#[derive(Clone)]
struct PreferredPoints(DomainTally<()>);

impl SumOfNodes<i64> for PreferredPoints {
    const NEEDS_PODS: bool = true;

    fn empty(_: &PodInfo, _: &i64, snapshot: &Snapshot) -> Self {
        Self(DomainTally::new(snapshot.nodes().len()))
    }

    fn follow(&mut self, snapshot: &Snapshot) {
        self.0.follow(snapshot);
    }

    /// The key is the weight of the required affinity of other pods.
    fn recount(&mut self, pod: &PodInfo, hard_weight: &i64, snapshot: &Snapshot, node: usize) {
        let (info, mut amounts) = (&snapshot.nodes()[node], Vec::new());
        if prefers(pod) || info.with_affinity > 0 {
            for other in &info.pods {
                score_pair(*hard_weight, (pod, other), snapshot, |key, weight| amounts.push(((), key, weight)));
            }
        }
        self.0.recount(snapshot, node, amounts.into_iter());
    }
}

fn prefers(pod: &PodInfo) -> bool {
    !(pod.preferred_affinity.is_empty() && pod.preferred_anti_affinity.is_empty())
}

impl PreScore for InterPodAffinity {
    fn pre_score(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
        _: &FeasibleNodes<'_>,
    ) -> PreScoreResult {
        if self.args.ignore_preferred_terms_of_existing_pods && !prefers(pod) {
            return PreScoreResult::Skip;
        }
        if !prefers(pod) && snapshot.with_affinity().next().is_none() {
            return PreScoreResult::Skip;
        }
        let points = self.preferred.get(pod, i64::from(self.args.hard_pod_affinity_weight), snapshot);
        if points.0.is_empty() {
            return PreScoreResult::Skip;
        }
        state.write_until_reserve(SCORE, points);
        PreScoreResult::Score
    }
}

/// Calls `add` with the topology key and the points of each term that makes one of two pods want to be near `other`, or far
/// from it: for the preferences of both pods, and `hard_weight` for each required affinity of `other`.
fn score_pair<'t>(
    hard_weight: i64,
    (pod, other): (&'t PodInfo, &'t PodInfo),
    snapshot: &Snapshot,
    mut add: impl FnMut(&'t str, i64),
) {
    let mut add_if_matching = |term: &'t AffinityTerm, of: &PodInfo, weight: i64| {
        if term.matches(of, snapshot.namespaces().labels(of.namespace())) {
            add(&term.topology_key, weight);
        }
    };
    for (weight, term) in &pod.preferred_affinity {
        add_if_matching(term, other, *weight);
    }
    for (weight, term) in &pod.preferred_anti_affinity {
        add_if_matching(term, other, -weight);
    }
    for term in other.required_affinity.iter().filter(|_| hard_weight > 0) {
        add_if_matching(term, pod, hard_weight);
    }
    for (weight, term) in &other.preferred_affinity {
        add_if_matching(term, pod, *weight);
    }
    for (weight, term) in &other.preferred_anti_affinity {
        add_if_matching(term, pod, -weight);
    }
}

impl Score for InterPodAffinity {
    fn score(&self, state: &CycleState, _pod: &PodInfo, node: &NodeInfo, _snapshot: &Snapshot) -> i64 {
        let Some(points) = state.read::<Arc<PreferredPoints>>(SCORE) else { return 0 };
        let simulated = Simulated::default();
        points.0.group(()).map(|sums| points.0.sum_of((), &sums.topology_key, node, &simulated)).sum()
    }

    fn score_all(&self, state: &CycleState, _: &PodInfo, nodes: &FeasibleNodes<'_>, _: &Snapshot) -> Vec<i64> {
        let mut scores = vec![0; nodes.len()];
        for sums in state.read::<Arc<PreferredPoints>>(SCORE).iter().flat_map(|points| points.0.group(())) {
            sums.add_to(&mut scores, nodes.numbers());
        }
        scores
    }

    /// Scales the range from the lowest to the highest score to 0 to 100. Scores may be negative.
    fn normalize(&self, _: &CycleState, _: &PodInfo, _: &FeasibleNodes<'_>, scores: &mut [i64]) {
        let range = |(least, most): (i64, i64), score: &i64| (least.min(*score), most.max(*score));
        let (least, most) = scores.iter().fold((i64::MAX, i64::MIN), range);
        if most <= least {
            return scores.fill(0);
        }
        let mut recent = Recent::default();
        for score in scores.iter_mut() {
            *score = recent.of(*score, |score| {
                let part = (*score - least) as f64 / (most - least) as f64;
                (MAX_NODE_SCORE as f64 * part) as i64
            });
        }
    }
}
