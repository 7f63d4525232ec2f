//! PodTopologySpread spreads matching pods over the domains of a topology, such as zones or nodes.
//!
//! Corresponds to pkg/scheduler/framework/plugins/podtopologyspread.

use crate::default_selector::Workloads;
use crate::domain_tally::{Above, DomainTally, Simulated};
use crate::node_affinity::selects_nodes;
use crate::recent::Recent;
use crate::taint_toleration::untolerated;
use component_helpers::scheduling::node_selector;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, TopologySpreadConstraint};
use proto::meta::label_selector;
use proto::meta::node_labels::{HOSTNAME, ZONE};
use proto::meta::selector::{Operator, Selector};
use scheduling_framework::cache::{NodeInfo, Snapshot, Topology, node_info};
use scheduling_framework::configuration::args::{PodTopologySpreadArgs, pod_topology_spread};
use scheduling_framework::node_judge::FilterByNumber;
use scheduling_framework::per_shape::{PerShape, SumOfNodes};
use scheduling_framework::pod_info::{PodInfo, with_label_keys};
use scheduling_framework::simulation_basis::{BasisOfNode, SimulationBasis};
use scheduling_framework::{
    ClusterEvent, CycleState, FeasibleNodes, Filter, MAX_NODE_SCORE, Plugin, PreFilter, PreFilterResult, PreScore,
    PreScoreResult, Rejection, Score,
};
use std::sync::Arc;

pub struct PodTopologySpread {
    workloads: Workloads,
    /// Constraints of pods without any. Their selectors are those of the pod's Services and controller.
    defaults: Vec<TopologySpreadConstraint>,
    /// True if the defaults are Kubernetes' own. Then nodes without a topology key get points all the same.
    are_system_defaults: bool,
    /// Matching pods for Filter, for each shape of pods.
    required: PerShape<Constraints, RequiredCounts>,
    /// Matching pods for Score, for each shape of pods.
    preferred: PerShape<Constraints, PreferredCounts>,
}

const NAME: &str = "PodTopologySpread";
const SCORE: &str = "PodTopologySpread/score";
const MISMATCH: &str = "node(s) didn't match pod topology spread constraints";
const MISSING_LABEL: &str = "node(s) didn't match pod topology spread constraints (missing required label)";

#[derive(Clone, Debug, PartialEq)]
struct Constraint {
    max_skew: i64,
    topology_key: String,
    selector: Selector,
    min_domains: i64,
    /// True if nodes that the pod's node affinity excludes do not count.
    honors_affinity: bool,
    /// True if nodes whose taints the pod does not tolerate do not count.
    honors_taints: bool,
}

impl Constraint {
    /// Returns true if the pods of this node count.
    fn counts_node(&self, pod: &PodInfo, node: &NodeInfo) -> bool {
        let affinity = || node.node.as_ref().is_some_and(|node| node_selector::required_matches(pod.spec(), node));
        (!self.honors_affinity || !selects_nodes(pod) || affinity())
            && (!self.honors_taints || untolerated(pod, node.taints()).is_none())
    }

    /// Returns true if the constraint counts another pod. Terminating pods do not count, and an empty selector counts
    /// none.
    fn counts_pod(&self, pod: &PodInfo, other: &PodInfo) -> bool {
        other.namespace() == pod.namespace()
            && !other.pod.is_deleting()
            && !self.selector.is_empty()
            && self.selector.matches(other.labels())
    }

    /// Returns the number of pods that count on a node of the snapshot. The first count of a cluster looks at no empty node.
    fn matching_of(&self, pod: &PodInfo, snapshot: &Snapshot, node: usize) -> i64 {
        if snapshot.with_pods().contains(node) { self.matching(pod, &snapshot.nodes()[node]) } else { 0 }
    }

    fn matching(&self, pod: &PodInfo, node: &NodeInfo) -> i64 {
        node.pods.iter().filter(|other| self.counts_pod(pod, other)).count() as i64
    }
}

/// Returns those of a pod's constraints that have this `whenUnsatisfiable`.
fn constraints(all: &[TopologySpreadConstraint], pod: &PodInfo, when_unsatisfiable: &str) -> Vec<Constraint> {
    let wanted = all.iter().filter(|constraint| constraint.when_unsatisfiable == when_unsatisfiable);
    wanted
        .map(|constraint| {
            let selector =
                label_selector::from_typed(constraint.label_selector.as_ref()).unwrap_or_else(|_| Selector::nothing());
            let keys = constraint.match_label_keys.clone().unwrap_or_default();
            Constraint {
                max_skew: constraint.max_skew.into(),
                topology_key: constraint.topology_key.clone(),
                selector: with_label_keys(&selector, pod.labels(), &keys, Operator::In),
                min_domains: constraint.min_domains.unwrap_or(1).into(),
                honors_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
                honors_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
            }
        })
        .collect()
}

fn has_all_keys(node: &NodeInfo, constraints: &[Constraint]) -> bool {
    constraints.iter().all(|constraint| node.label(&constraint.topology_key).is_some())
}

/// Some constraints of a pod.
#[derive(Clone, Debug, PartialEq)]
struct Constraints {
    all: Arc<[Constraint]>,
    /// True if a node without one of the topology keys counts for none of them.
    need_all_keys: bool,
}

impl Constraints {
    fn count_node(&self, node: &NodeInfo) -> bool {
        !self.need_all_keys || has_all_keys(node, &self.all)
    }

    /// Returns the matching pods on a node for each constraint, by its place and key. Hostnames are left out if `wanted`
    /// rejects them.
    fn matching<'a>(
        &'a self,
        pod: &'a PodInfo,
        snapshot: &'a Snapshot,
        node: usize,
        wanted: fn(&Constraint) -> bool,
    ) -> impl Iterator<Item = (usize, &'a str, i64)> {
        let info = &snapshot.nodes()[node];
        // A tally leaves out a node without the only key.
        let has_keys = move || self.all.len() == 1 || self.count_node(info);
        let counted = self
            .all
            .iter()
            .enumerate()
            .filter(move |(_, constraint)| wanted(constraint) && has_keys() && constraint.counts_node(pod, info));
        counted.map(move |(at, constraint)| {
            (at, constraint.topology_key.as_str(), constraint.matching_of(pod, snapshot, node))
        })
    }
}

/// The matching pods of each required constraint, by its place.
#[derive(Clone)]
struct RequiredCounts(DomainTally<usize>);

impl SumOfNodes<Constraints> for RequiredCounts {
    const NEEDS_PODS: bool = false;

    fn empty(_: &PodInfo, _: &Constraints, snapshot: &Snapshot) -> Self {
        Self(DomainTally::new(snapshot.nodes().len()))
    }

    fn follow(&mut self, snapshot: &Snapshot) {
        self.0.follow(snapshot);
    }

    fn recount(&mut self, pod: &PodInfo, constraints: &Constraints, snapshot: &Snapshot, node: usize) {
        self.0.recount(snapshot, node, constraints.matching(pod, snapshot, node, |_| true));
    }
}

/// The data of PreFilter.
#[derive(Clone)]
struct Required {
    constraints: Constraints,
    counts: Arc<RequiredCounts>,
    simulated: Simulated<usize>,
}

impl Required {
    /// Returns the largest number of matching pods that a domain may have before the pod comes.
    fn limit(&self, at: usize, pod: &PodInfo) -> i64 {
        let constraint = &self.constraints.all[at];
        let (domains, least) = self.counts.0.least(at, &constraint.topology_key, &self.simulated);
        // With fewer domains than `minDomains`, the least count is zero.
        let least = if (domains as i64) < constraint.min_domains { 0 } else { least.unwrap_or(i64::MAX) };
        least.saturating_add(self.bound(at, pod))
    }

    /// Returns by how much a domain may exceed the one with the fewest matching pods before the pod comes.
    fn bound(&self, at: usize, pod: &PodInfo) -> i64 {
        let constraint = &self.constraints.all[at];
        constraint.max_skew - i64::from(constraint.selector.matches(pod.labels()))
    }
}

impl PodTopologySpread {
    pub fn new(args: PodTopologySpreadArgs, workloads: Workloads) -> Self {
        let are_system_defaults = args.defaulting_type == pod_topology_spread::SYSTEM;
        let defaults = if are_system_defaults { system_defaults() } else { args.default_constraints };
        let (required, preferred) = (PerShape::default(), PerShape::default());
        Self { workloads, defaults, are_system_defaults, required, preferred }
    }

    pub fn has_default_constraints(&self) -> bool {
        !self.defaults.is_empty()
    }

    /// Returns the pod's own constraints, or the default ones, with this `whenUnsatisfiable`.
    fn constraints_of(&self, pod: &PodInfo, when_unsatisfiable: &str) -> Vec<Constraint> {
        if let Some(own) = pod.spec().topology_spread_constraints.as_ref().filter(|own| !own.is_empty()) {
            return constraints(own, pod, when_unsatisfiable);
        }
        let mut defaults = constraints(&self.defaults, pod, when_unsatisfiable);
        if defaults.is_empty() {
            return defaults;
        }
        let selector = self.workloads.selector_of(pod);
        if selector.is_empty() {
            return Vec::new();
        }
        for constraint in &mut defaults {
            constraint.selector = selector.clone();
        }
        defaults
    }
}

/// Returns Kubernetes' own defaults: spread over nodes and zones.
fn system_defaults() -> Vec<TopologySpreadConstraint> {
    let constraint = |(max_skew, topology_key): (i32, &str)| TopologySpreadConstraint {
        max_skew,
        topology_key: topology_key.to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        ..TopologySpreadConstraint::default()
    };
    [(3, HOSTNAME), (5, ZONE)].map(constraint).into()
}

impl Plugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        NAME
    }

    fn may_become_schedulable(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        let constraints = self.constraints_of(pod, "DoNotSchedule");
        let selects = |constraint: &Constraint, other: &PodInfo| constraint.selector.matches(other.labels());
        let spreads = |other: &PodInfo| {
            other.namespace() == pod.namespace() && constraints.iter().any(|constraint| selects(constraint, other))
        };
        let label = |node: &Node, key: &str| node.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
        let is_inside = |node: &Node| constraints.iter().all(|c| label(node, &c.topology_key).is_some());
        match event {
            ClusterEvent::AssignedPodAdded(other) | ClusterEvent::AssignedPodDeleted(other) => spreads(other),
            ClusterEvent::AssignedPodUpdated { old, new } => {
                new.namespace() == pod.namespace() && constraints.iter().any(|c| selects(c, old) != selects(c, new))
            }
            ClusterEvent::NodeAdded(node) | ClusterEvent::NodeDeleted(node) => is_inside(node),
            ClusterEvent::NodeUpdated { old, new } => {
                let moved = || constraints.iter().any(|c| label(old, &c.topology_key) != label(new, &c.topology_key));
                is_inside(old) != is_inside(new)
                    || is_inside(new) && (moved() || node_info::taints(old) != node_info::taints(new))
            }
            ClusterEvent::PodUpdated { old, .. } => {
                let tolerations = |pod: &PodInfo| pod.spec().tolerations.clone();
                old.labels() != pod.labels()
                    || constraints.iter().any(|c| c.honors_taints) && tolerations(old) != tolerations(pod)
            }
            _ => false,
        }
    }
}

impl PreFilter for PodTopologySpread {
    fn pre_filter(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
    ) -> Result<PreFilterResult, Rejection> {
        let constraints = self.constraints_of(pod, "DoNotSchedule");
        if constraints.is_empty() {
            return Ok(PreFilterResult::Skip);
        }
        // A node without one of the topology keys is in no domain.
        let constraints = Constraints { all: constraints.into(), need_all_keys: true };
        let counts = self.required.get(pod, constraints.clone(), snapshot);
        state.write_until_reserve(NAME, Required { constraints, counts, simulated: Simulated::default() });
        Ok(PreFilterResult::AllNodes)
    }

    fn add_pod(&self, state: &mut CycleState, pod: &PodInfo, added: &PodInfo, node: &NodeInfo) {
        simulate(state, pod, added, node, 1);
    }

    fn remove_pod(&self, state: &mut CycleState, pod: &PodInfo, removed: &PodInfo, node: &NodeInfo) {
        simulate(state, pod, removed, node, -1);
    }
}

/// Adds `change` to the counts for another pod on the node.
fn simulate(state: &mut CycleState, pod: &PodInfo, other: &PodInfo, node: &NodeInfo, change: i64) {
    let Some(Required { constraints, simulated, .. }) = state.read_mut::<Required>(NAME) else { return };
    if !constraints.count_node(node) {
        return;
    }
    for (at, constraint) in constraints.all.iter().enumerate() {
        if constraint.counts_node(pod, node) && constraint.counts_pod(pod, other) {
            simulated.add(at, &constraint.topology_key, node, change);
        }
    }
}

impl Filter for PodTopologySpread {
    fn filter(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        let Some(required) = state.read::<Required>(NAME) else { return Ok(()) };
        for (at, constraint) in required.constraints.all.iter().enumerate() {
            if node.label(&constraint.topology_key).is_none() {
                return Err(Rejection::unresolvable(NAME, MISSING_LABEL));
            }
            let here = required.counts.0.sum_of(at, &constraint.topology_key, node, &required.simulated);
            if here > required.limit(at, pod) {
                return Err(Rejection::unschedulable(NAME, MISMATCH));
            }
        }
        Ok(())
    }

    /// What counts is by how much the other pods of the domain exceed the domain with the fewest. Pods of the node may add what
    /// is on it now: if the verdict is the same with all of them and without any, the number says only that.
    fn basis<'a>(&'a self, state: &'a CycleState, pod: &'a PodInfo, _: &'a Snapshot) -> Option<SimulationBasis<'a>> {
        let required = state.read::<Required>(NAME).filter(|required| required.simulated.is_empty())?;
        let tally = &required.counts.0;
        let all = required.constraints.all.iter().enumerate();
        let constraints: Vec<_> =
            all.map(|(at, constraint)| (tally.numbered(at).next(), required.bound(at, pod), constraint)).collect();
        let common = constraints
            .iter()
            .map(|(sums, _, constraint)| format!("{constraint:?} {:?}", sums.map(|(number, _)| number)))
            .collect();
        let of_node: BasisOfNode<'a> = Box::new(move |node, is_alone, numbers| {
            numbers.extend(constraints.iter().map(|(sums, bound, constraint)| {
                let Some((number, sums)) = sums else { return 0 };
                let is_short = (sums.counted_domains() as i64) < constraint.min_domains;
                let least = if is_short { 0 } else { sums.least_elsewhere(node).unwrap_or(i64::MAX) };
                let excess = tally.of_others(*number, node) - least;
                match is_alone {
                    true if excess > *bound => i64::MAX,
                    true if excess + tally.of_itself(*number, node) <= *bound => i64::MIN,
                    _ => excess,
                }
            }));
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
        let too_many = required.constraints.all.iter().enumerate().map(|(at, constraint)| {
            let key = &constraint.topology_key;
            Above::new(snapshot.topology(key), required.counts.0.get(at, key), required.limit(at, pod))
        });
        let too_many: Vec<_> = too_many.collect();
        let reasons = [Rejection::unresolvable(NAME, MISSING_LABEL), Rejection::unschedulable(NAME, MISMATCH)];
        Some(FilterByNumber::of_words(reasons, move |word, nodes| {
            let (mut left, mut missing, mut mismatched) = (nodes, 0, 0);
            for above in &too_many {
                let labelled = above.labelled(word, left);
                let fitting = labelled & !above.of(word, labelled);
                (missing, mismatched) = (missing | left & !labelled, mismatched | labelled & !fitting);
                left = fitting;
            }
            [missing, mismatched, 0, 0]
        }))
    }
}

/// The matching pods of each preferred constraint, by its place: of a domain, or for the hostname of each node.
#[derive(Clone)]
struct PreferredCounts {
    of_domains: DomainTally<usize>,
    /// Empty for a constraint with another topology key.
    of_nodes: Vec<Vec<i64>>,
}

fn is_hostname(constraint: &Constraint) -> bool {
    constraint.topology_key == HOSTNAME
}

impl SumOfNodes<Constraints> for PreferredCounts {
    const NEEDS_PODS: bool = false;

    fn empty(_: &PodInfo, constraints: &Constraints, snapshot: &Snapshot) -> Self {
        let nodes = snapshot.nodes().len();
        let of_constraint = |constraint: &Constraint| vec![0; if is_hostname(constraint) { nodes } else { 0 }];
        Self { of_domains: DomainTally::new(nodes), of_nodes: constraints.all.iter().map(of_constraint).collect() }
    }

    fn follow(&mut self, snapshot: &Snapshot) {
        self.of_domains.follow(snapshot);
    }

    fn recount(&mut self, pod: &PodInfo, constraints: &Constraints, snapshot: &Snapshot, node: usize) {
        let of_domains = constraints.matching(pod, snapshot, node, |constraint| !is_hostname(constraint));
        self.of_domains.recount(snapshot, node, of_domains);
        for (constraint, counts) in constraints.all.iter().zip(&mut self.of_nodes) {
            if let Some(count) = counts.get_mut(node) {
                *count = constraint.matching_of(pod, snapshot, node);
            }
        }
    }
}

/// The data of PreScore.
#[derive(Clone)]
struct Preferred {
    constraints: Constraints,
    counts: Arc<PreferredCounts>,
    /// Weight of each constraint's topology.
    weights: Vec<f64>,
    /// False for the nodes that get no points because they lack a topology key, in the order of the scored nodes. `None` if all
    /// get points.
    counted: Option<Vec<bool>>,
}

impl PreScore for PodTopologySpread {
    fn pre_score(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
        nodes: &FeasibleNodes<'_>,
    ) -> PreScoreResult {
        let own = pod.spec().topology_spread_constraints.as_ref().is_some_and(|all| !all.is_empty());
        let need_all_keys = own || !self.are_system_defaults;
        let constraints = self.constraints_of(pod, "ScheduleAnyway");
        if constraints.is_empty() {
            return PreScoreResult::Skip;
        }
        let constraints = Constraints { all: constraints.into(), need_all_keys };
        let topologies: Vec<_> = constraints.all.iter().map(|one| snapshot.topology(&one.topology_key)).collect();
        let nodes = nodes.numbers();
        let seen = |nodes: &[usize]| -> Vec<Seen> {
            let pairs = constraints.all.iter().zip(&topologies);
            pairs.map(|(constraint, topology)| Seen::of(constraint, topology, nodes)).collect()
        };
        let of_all = seen(nodes);
        let has_keys = |node: &usize| topologies.iter().all(|topology| topology.domain_of(*node).is_some());
        let is_one_without = need_all_keys && of_all.iter().any(|seen| seen.is_without);
        let counted: Option<Vec<bool>> = is_one_without.then(|| nodes.iter().map(has_keys).collect());
        let of_counted = match &counted {
            None => of_all,
            Some(_) => seen(&only_counted(&counted, nodes).copied().collect::<Vec<usize>>()),
        };
        let weights = of_counted.iter().map(|seen| weight(seen.domains)).collect();
        let counts = self.preferred.get(pod, constraints.clone(), snapshot);
        state.write_until_reserve(SCORE, Preferred { constraints, counts, weights, counted });
        PreScoreResult::Score
    }
}

/// The domains of some nodes.
struct Seen {
    /// Number of domains. Nodes without the topology key are one more. Each node is a domain of its hostname.
    domains: usize,
    /// True if there is a node without the topology key.
    is_without: bool,
}

impl Seen {
    fn of(constraint: &Constraint, topology: &Topology, nodes: &[usize]) -> Self {
        let without = topology.domains();
        if is_hostname(constraint) {
            let is_without = nodes.iter().any(|node| topology.domain_of(*node).is_none());
            return Self { domains: nodes.len(), is_without };
        }
        // The domains of a small topology are bits of one word.
        if without < u64::BITS as usize {
            let seen = nodes.iter().fold(0_u64, |seen, node| seen | (1 << topology.domain_or_last(*node)));
            return Self { domains: seen.count_ones() as usize, is_without: (seen >> without) & 1 == 1 };
        }
        let mut seen = vec![false; without + 1];
        nodes.iter().for_each(|node| seen[topology.domain_or_last(*node)] = true);
        Self { domains: seen.iter().filter(|seen| **seen).count(), is_without: seen[without] }
    }
}

/// Returns the items of the nodes that get points.
fn only_counted<'a, T>(counted: &'a Option<Vec<bool>>, items: &'a [T]) -> impl Iterator<Item = &'a T> {
    let is_counted = |at: usize| counted.as_ref().is_none_or(|counted| counted[at]);
    items.iter().enumerate().filter(move |(at, _)| is_counted(*at)).map(|(_, item)| item)
}

/// Returns the weight of a topology. It grows with the number of domains, because each has fewer pods.
fn weight(domains: usize) -> f64 {
    ((domains + 2) as f64).ln()
}

impl Preferred {
    /// Returns the weighted number of matching pods, of a constraint's `count` after the other.
    fn total(&self, count: impl Fn(usize, &Constraint) -> Option<i64>) -> i64 {
        let mut total = 0.0;
        for (at, (constraint, weight)) in self.constraints.all.iter().zip(&self.weights).enumerate() {
            if let Some(count) = count(at, constraint) {
                // With a larger `maxSkew`, small differences have less effect.
                total += count as f64 * weight + (constraint.max_skew - 1) as f64;
            }
        }
        total.round() as i64
    }
}

impl Score for PodTopologySpread {
    /// Returns the weighted number of matching pods in the node's domains. `normalize` reverses it: fewer pods are
    /// better.
    fn score(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo, _snapshot: &Snapshot) -> i64 {
        let Some(preferred) = state.read::<Preferred>(SCORE) else { return 0 };
        if !preferred.constraints.count_node(node) {
            return 0;
        }
        preferred.total(|at, constraint| {
            node.label(&constraint.topology_key)?;
            Some(match is_hostname(constraint) {
                true => constraint.matching(pod, node),
                false => {
                    let simulated = Simulated::default();
                    preferred.counts.of_domains.sum_of(at, &constraint.topology_key, node, &simulated)
                }
            })
        })
    }

    fn score_all(&self, state: &CycleState, _: &PodInfo, nodes: &FeasibleNodes<'_>, snapshot: &Snapshot) -> Vec<i64> {
        let Some(preferred) = state.read::<Preferred>(SCORE) else { return vec![0; nodes.len()] };
        let of_constraints = preferred.constraints.all.iter().enumerate().map(|(at, constraint)| {
            let (key, of_nodes) = (&constraint.topology_key, &preferred.counts.of_nodes[at]);
            let of_nodes = is_hostname(constraint).then_some(of_nodes);
            (snapshot.topology(key), preferred.counts.of_domains.get(at, key), of_nodes)
        });
        let of_constraints: Vec<_> = of_constraints.collect();
        let count = |node: usize, at: usize| -> Option<i64> {
            let (topology, sums, of_nodes) = &of_constraints[at];
            let domain = topology.domain_of(node)?;
            Some(of_nodes.map_or_else(|| sums.map_or(0, |sums| sums.of_domain(domain)), |counts| counts[node]))
        };
        let nodes = nodes.numbers();
        let mut scores: Vec<i64> = match &of_constraints[..] {
            // The nodes of a domain have one score.
            [(topology, sums, None)] if topology.domains() <= nodes.len() => {
                let of_domain = |domain: usize| Some(sums.map_or(0, |sums| sums.of_domain(domain)));
                let mut scores: Vec<i64> =
                    (0..topology.domains()).map(|domain| preferred.total(|_, _| of_domain(domain))).collect();
                scores.push(preferred.total(|_, _| None));
                nodes.iter().map(|node| scores[topology.domain_or_last(*node)]).collect()
            }
            [_] => {
                let mut recent = Recent::default();
                let score = |node: &usize| recent.of(count(*node, 0), |count| preferred.total(|_, _| *count));
                nodes.iter().map(score).collect()
            }
            _ => nodes.iter().map(|node| preferred.total(|at, _| count(*node, at))).collect(),
        };
        if let Some(counted) = &preferred.counted {
            scores.iter_mut().zip(counted).filter(|(_, counted)| !**counted).for_each(|(score, _)| *score = 0);
        }
        scores
    }

    fn normalize(&self, state: &CycleState, _: &PodInfo, _: &FeasibleNodes<'_>, scores: &mut [i64]) {
        let Some(Preferred { counted, .. }) = state.read::<Preferred>(SCORE) else { return };
        let bounds = |(least, most): (i64, i64), score: &i64| (least.min(*score), most.max(*score));
        let none = (i64::MAX, i64::MIN);
        let (least, most) = match counted {
            None => scores.iter().fold(none, bounds),
            Some(_) => only_counted(counted, scores).fold(none, bounds),
        };
        let mut recent = Recent::default();
        let mut normalized = |score: i64| match most {
            0 => MAX_NODE_SCORE,
            _ => recent.of(score, |score| MAX_NODE_SCORE * (most + least - score) / most),
        };
        match counted {
            None => scores.iter_mut().for_each(|score| *score = normalized(*score)),
            Some(counted) => scores.iter_mut().zip(counted).for_each(|(score, is_counted)| {
                *score = if *is_counted { normalized(*score) } else { 0 };
            }),
        }
    }
}
