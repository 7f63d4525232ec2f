//! PodTopologySpread spreads matching pods over the domains of a topology, such as zones or nodes.
//!
//! Corresponds to pkg/scheduler/framework/plugins/podtopologyspread.

use crate::default_selector::Workloads;
use crate::taint_toleration::untolerated;
use component_helpers::scheduling::node_selector;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, TopologySpreadConstraint};
use proto::meta::label_selector;
use proto::meta::selector::{Operator, Selector};
use scheduling_framework::cache::{NodeInfo, Snapshot, node_info};
use scheduling_framework::configuration::args::{PodTopologySpreadArgs, pod_topology_spread};
use scheduling_framework::pod_info::{PodInfo, with_label_keys};
use scheduling_framework::{
    ClusterEvent, CycleState, Filter, MAX_NODE_SCORE, Plugin, PreFilter, PreFilterResult, PreScore, PreScoreResult,
    Rejection, Score,
};
use std::collections::BTreeMap;

pub struct PodTopologySpread {
    workloads: Workloads,
    /// Constraints of pods without any. Their selectors are those of the pod's Services and controller.
    defaults: Vec<TopologySpreadConstraint>,
    /// True if the defaults are Kubernetes' own. Then nodes without a topology key get points all the same.
    are_system_defaults: bool,
}

const NAME: &str = "PodTopologySpread";
const SCORE: &str = "PodTopologySpread/score";
const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
const MISMATCH: &str = "node(s) didn't match pod topology spread constraints";
const MISSING_LABEL: &str = "node(s) didn't match pod topology spread constraints (missing required label)";

#[derive(Clone, Debug)]
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
        (!self.honors_affinity || affinity()) && (!self.honors_taints || untolerated(pod, node.taints()).is_none())
    }

    /// Returns true if the constraint counts another pod. Terminating pods do not count, and an empty selector counts
    /// none.
    fn counts_pod(&self, pod: &PodInfo, other: &PodInfo) -> bool {
        other.namespace() == pod.namespace()
            && !other.pod.is_deleting()
            && !self.selector.is_empty()
            && self.selector.matches(other.labels())
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

/// Each required constraint with its number of matching pods by domain.
#[derive(Clone)]
struct Required(Vec<(Constraint, BTreeMap<String, i64>)>);

impl PodTopologySpread {
    pub fn new(args: PodTopologySpreadArgs, workloads: Workloads) -> Self {
        let are_system_defaults = args.defaulting_type == pod_topology_spread::SYSTEM;
        let defaults = if are_system_defaults { system_defaults() } else { args.default_constraints };
        Self { workloads, defaults, are_system_defaults }
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
        let mut counts: Vec<BTreeMap<String, i64>> = vec![BTreeMap::new(); constraints.len()];
        // A node without one of the topology keys is in no domain.
        for node in snapshot.nodes().iter().filter(|node| has_all_keys(node, &constraints)) {
            for (constraint, counts) in constraints.iter().zip(&mut counts) {
                if let (true, Some(domain)) = (constraint.counts_node(pod, node), node.label(&constraint.topology_key))
                {
                    *counts.entry(domain.to_owned()).or_insert(0) += constraint.matching(pod, node);
                }
            }
        }
        state.write(NAME, Required(constraints.into_iter().zip(counts).collect()));
        Ok(PreFilterResult::AllNodes)
    }

    fn add_pod(&self, state: &mut CycleState, pod: &PodInfo, added: &PodInfo, node: &NodeInfo) {
        add_to_counts(state, pod, added, node, 1);
    }

    fn remove_pod(&self, state: &mut CycleState, pod: &PodInfo, removed: &PodInfo, node: &NodeInfo) {
        add_to_counts(state, pod, removed, node, -1);
    }
}

/// Adds `change` to the counts for another pod on the node.
fn add_to_counts(state: &mut CycleState, pod: &PodInfo, other: &PodInfo, node: &NodeInfo, change: i64) {
    let Some(Required(all)) = state.read_mut::<Required>(NAME) else { return };
    if all.iter().any(|(constraint, _)| node.label(&constraint.topology_key).is_none()) {
        return;
    }
    for (constraint, counts) in all {
        if let (true, Some(domain)) = (constraint.counts_node(pod, node), node.label(&constraint.topology_key))
            && constraint.counts_pod(pod, other)
        {
            *counts.entry(domain.to_owned()).or_insert(0) += change;
        }
    }
}

impl Filter for PodTopologySpread {
    fn filter(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        let Some(Required(constraints)) = state.read::<Required>(NAME) else { return Ok(()) };
        for (constraint, counts) in constraints {
            let Some(domain) = node.label(&constraint.topology_key) else {
                return Err(Rejection::unresolvable(NAME, MISSING_LABEL));
            };
            let itself = i64::from(constraint.selector.matches(pod.labels()));
            let least = counts.values().copied().min().unwrap_or(i64::MAX);
            // With fewer domains than `minDomains`, the least count is zero.
            let least = if (counts.len() as i64) < constraint.min_domains { 0 } else { least };
            let here = counts.get(domain).copied().unwrap_or(0);
            if (here + itself).saturating_sub(least) > constraint.max_skew {
                return Err(Rejection::unschedulable(NAME, MISMATCH));
            }
        }
        Ok(())
    }
}

/// The counts of PreScore.
#[derive(Clone)]
struct Preferred {
    /// Constraints with the weight of their topology and the pods by domain. For the hostname, Score counts the pods.
    constraints: Vec<(Constraint, f64, BTreeMap<String, i64>)>,
    /// True if nodes without all topology keys get no points.
    needs_all_keys: bool,
}

impl Preferred {
    fn ignores(&self, node: &NodeInfo) -> bool {
        self.needs_all_keys
            && self.constraints.iter().any(|(constraint, ..)| node.label(&constraint.topology_key).is_none())
    }
}

impl PreScore for PodTopologySpread {
    fn pre_score(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
        nodes: &[&NodeInfo],
    ) -> PreScoreResult {
        let own = pod.spec().topology_spread_constraints.as_ref().is_some_and(|all| !all.is_empty());
        let needs_all_keys = own || !self.are_system_defaults;
        let constraints = self.constraints_of(pod, "ScheduleAnyway");
        if constraints.is_empty() {
            return PreScoreResult::Skip;
        }
        let counts_at_all = |node: &NodeInfo| !needs_all_keys || has_all_keys(node, &constraints);
        let scored: Vec<&&NodeInfo> = nodes.iter().filter(|node| counts_at_all(node)).collect();
        // A node without one of the topology keys counts for no constraint, as in PreFilter.
        let inside: Vec<&NodeInfo> =
            snapshot.nodes().iter().filter(|node| counts_at_all(node)).map(|node| &**node).collect();
        let weigh = |constraint: Constraint| {
            let mut counts = BTreeMap::new();
            if constraint.topology_key == HOSTNAME {
                return (constraint, weight(scored.len()), counts);
            }
            // Scored nodes without the topology key are one more domain.
            for node in &scored {
                counts.insert(node.label(&constraint.topology_key).unwrap_or_default().to_owned(), 0);
            }
            let size = counts.len();
            for node in inside.iter().filter(|node| constraint.counts_node(pod, node)) {
                if let Some(count) = node.label(&constraint.topology_key).and_then(|domain| counts.get_mut(domain)) {
                    *count += constraint.matching(pod, node);
                }
            }
            (constraint, weight(size), counts)
        };
        let constraints = constraints.into_iter().map(weigh).collect();
        state.write(SCORE, Preferred { constraints, needs_all_keys });
        PreScoreResult::Score
    }
}

/// Returns the weight of a topology. It grows with the number of domains, because each has fewer pods.
fn weight(domains: usize) -> f64 {
    ((domains + 2) as f64).ln()
}

impl Score for PodTopologySpread {
    /// Returns the weighted number of matching pods in the node's domains. `normalize` reverses it: fewer pods are
    /// better.
    fn score(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo, _snapshot: &Snapshot) -> i64 {
        let Some(preferred) = state.read::<Preferred>(SCORE) else { return 0 };
        if preferred.ignores(node) {
            return 0;
        }
        let mut total = 0.0;
        for (constraint, weight, counts) in &preferred.constraints {
            let Some(domain) = node.label(&constraint.topology_key) else { continue };
            let count = match constraint.topology_key == HOSTNAME {
                true => constraint.matching(pod, node),
                false => counts.get(domain).copied().unwrap_or(0),
            };
            // With a larger `maxSkew`, small differences have less effect.
            total += count as f64 * weight + (constraint.max_skew - 1) as f64;
        }
        total.round() as i64
    }

    fn normalize(&self, state: &CycleState, _: &PodInfo, nodes: &[&NodeInfo], scores: &mut [i64]) {
        let Some(preferred) = state.read::<Preferred>(SCORE) else { return };
        let counted: Vec<bool> = nodes.iter().map(|node| !preferred.ignores(node)).collect();
        let of_counted = || scores.iter().zip(&counted).filter(|(_, counted)| **counted).map(|(score, _)| *score);
        let (least, most) = (of_counted().min().unwrap_or(0), of_counted().max().unwrap_or(0));
        for (score, counted) in scores.iter_mut().zip(&counted) {
            *score = match (counted, most) {
                (false, _) => 0,
                (true, 0) => MAX_NODE_SCORE,
                (true, most) => MAX_NODE_SCORE * (most + least - *score) / most,
            };
        }
    }
}
