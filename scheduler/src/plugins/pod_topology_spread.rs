//! PodTopologySpread: pods of one kind spread over zones, nodes or whatever a label says.
//!
//! Corresponds to pkg/scheduler/framework/plugins/podtopologyspread.

use crate::cache::{NodeInfo, Snapshot, node_info};
use crate::framework::{
    ClusterEvent, CycleState, Filter, MAX_NODE_SCORE, Plugin, PreFilter, PreFiltered, PreScore, PreScored, Rejection,
    Score,
};
use crate::plugins::default_selector::Workloads;
use crate::plugins::taint_toleration::untolerated;
use crate::pod_info::{PodInfo, with_label_keys};
use proto::Kind;
use proto::kinds::api::core::v1::Node;
use proto::meta::label_selector;
use proto::meta::selector::{Operator, Selector};
use proto::scheduling::node_selector;
use std::collections::BTreeMap;

pub struct PodTopologySpread {
    pub workloads: Workloads,
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
    /// Nodes that the pod's node affinity rules out do not count.
    honors_affinity: bool,
    /// Nodes whose taints the pod does not tolerate do not count.
    honors_taints: bool,
}

impl Constraint {
    /// Whether pods on this node count at all.
    fn counts_node(&self, pod: &PodInfo, node: &NodeInfo) -> bool {
        let affinity = || node.node.as_ref().is_some_and(|node| node_selector::required_matches(pod.spec(), node));
        (!self.honors_affinity || affinity()) && (!self.honors_taints || untolerated(pod, node.taints()).is_none())
    }

    /// Whether the constraint spreads this other pod. Those on their way out do not count, and a selector of
    /// everything counts nobody.
    fn spreads(&self, pod: &PodInfo, other: &PodInfo) -> bool {
        other.namespace() == pod.namespace()
            && !other.pod.is_deleting()
            && !self.selector.is_empty()
            && self.selector.matches(other.labels())
    }

    fn matching(&self, pod: &PodInfo, node: &NodeInfo) -> i64 {
        node.pods.iter().filter(|other| self.spreads(pod, other)).count() as i64
    }
}

/// The pod's constraints of one kind: `DoNotSchedule` or `ScheduleAnyway`.
fn constraints(pod: &PodInfo, when_unsatisfiable: &str) -> Vec<Constraint> {
    let all = pod.spec().topology_spread_constraints.iter().flatten();
    let wanted = all.filter(|constraint| constraint.when_unsatisfiable == when_unsatisfiable);
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

/// Matching pods by domain, for each constraint.
#[derive(Clone)]
struct Required(Vec<(Constraint, BTreeMap<String, i64>)>);

impl Plugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        NAME
    }

    fn is_helped_by(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        let constraints = constraints(pod, "DoNotSchedule");
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
    fn pre_filter(&self, state: &mut CycleState, pod: &PodInfo, snapshot: &Snapshot) -> Result<PreFiltered, Rejection> {
        let constraints = constraints(pod, "DoNotSchedule");
        if constraints.is_empty() {
            return Ok(PreFiltered::Skip);
        }
        let mut counts: Vec<BTreeMap<String, i64>> = vec![BTreeMap::new(); constraints.len()];
        // A node outside any of the topologies is in none of the domains.
        for node in snapshot.nodes().iter().filter(|node| has_all_keys(node, &constraints)) {
            for (constraint, counts) in constraints.iter().zip(&mut counts) {
                if let (true, Some(domain)) = (constraint.counts_node(pod, node), node.label(&constraint.topology_key))
                {
                    *counts.entry(domain.to_owned()).or_insert(0) += constraint.matching(pod, node);
                }
            }
        }
        state.write(NAME, Required(constraints.into_iter().zip(counts).collect()));
        Ok(PreFiltered::AllNodes)
    }

    fn add_pod(&self, state: &mut CycleState, pod: &PodInfo, added: &PodInfo, node: &NodeInfo) {
        count_in(state, pod, added, node, 1);
    }

    fn remove_pod(&self, state: &mut CycleState, pod: &PodInfo, removed: &PodInfo, node: &NodeInfo) {
        count_in(state, pod, removed, node, -1);
    }
}

/// Another pod has come to the node, or left it.
fn count_in(state: &mut CycleState, pod: &PodInfo, other: &PodInfo, node: &NodeInfo, change: i64) {
    let Some(Required(all)) = state.change::<Required>(NAME) else { return };
    if all.iter().any(|(constraint, _)| node.label(&constraint.topology_key).is_none()) {
        return;
    }
    for (constraint, counts) in all {
        if let (true, Some(domain)) = (constraint.counts_node(pod, node), node.label(&constraint.topology_key))
            && constraint.spreads(pod, other)
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
            // Too few domains: as if there were an empty one more.
            let least = if (counts.len() as i64) < constraint.min_domains { 0 } else { least };
            let here = counts.get(domain).copied().unwrap_or(0);
            if (here + itself).saturating_sub(least) > constraint.max_skew {
                return Err(Rejection::unschedulable(NAME, MISMATCH));
            }
        }
        Ok(())
    }
}

/// What PreScore counts.
#[derive(Clone)]
struct Preferred {
    /// With the weight of the topology and the pods by domain; nodes are counted when they are scored.
    constraints: Vec<(Constraint, f64, BTreeMap<String, i64>)>,
    /// Nodes without all of the topologies get no points.
    needs_all_keys: bool,
}

impl Preferred {
    fn ignores(&self, node: &NodeInfo) -> bool {
        self.needs_all_keys
            && self.constraints.iter().any(|(constraint, ..)| node.label(&constraint.topology_key).is_none())
    }
}

impl PodTopologySpread {
    /// A pod that says nothing spreads over nodes and zones with its like, loosely.
    fn default_constraints(&self, pod: &PodInfo) -> Vec<Constraint> {
        let selector = self.workloads.selector_of(pod);
        if selector.is_empty() {
            return Vec::new();
        }
        let constraint = |(max_skew, topology_key): (i64, &str)| Constraint {
            max_skew,
            topology_key: topology_key.to_owned(),
            selector: selector.clone(),
            min_domains: 1,
            honors_affinity: true,
            honors_taints: false,
        };
        [(3, HOSTNAME), (5, ZONE)].map(constraint).into()
    }
}

impl PreScore for PodTopologySpread {
    fn pre_score(&self, state: &mut CycleState, pod: &PodInfo, snapshot: &Snapshot, nodes: &[&NodeInfo]) -> PreScored {
        let own = pod.spec().topology_spread_constraints.as_ref().is_some_and(|all| !all.is_empty());
        let constraints = if own { constraints(pod, "ScheduleAnyway") } else { self.default_constraints(pod) };
        if constraints.is_empty() {
            return PreScored::Skip;
        }
        let scored: Vec<&&NodeInfo> = nodes.iter().filter(|node| !own || has_all_keys(node, &constraints)).collect();
        let weigh = |constraint: Constraint| {
            let mut counts = BTreeMap::new();
            if constraint.topology_key == HOSTNAME {
                return (constraint, weight(scored.len()), counts);
            }
            // Nodes outside of the topology, where they are scored at all, are one more domain.
            for node in &scored {
                counts.insert(node.label(&constraint.topology_key).unwrap_or_default().to_owned(), 0);
            }
            let size = counts.len();
            for node in snapshot.nodes().iter().filter(|node| constraint.counts_node(pod, node)) {
                if let Some(count) = node.label(&constraint.topology_key).and_then(|domain| counts.get_mut(domain)) {
                    *count += constraint.matching(pod, node);
                }
            }
            (constraint, weight(size), counts)
        };
        let constraints = constraints.into_iter().map(weigh).collect();
        state.write(SCORE, Preferred { constraints, needs_all_keys: own });
        PreScored::Score
    }
}

/// Topologies with many domains have few pods in each; they weigh a little more for it.
fn weight(domains: usize) -> f64 {
    ((domains + 2) as f64).ln()
}

impl Score for PodTopologySpread {
    /// How crowded the node's domains are: the less, the better.
    fn score(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo, _snapshot: &Snapshot) -> i64 {
        let Some(preferred) = state.read::<Preferred>(SCORE) else { return 0 };
        if preferred.ignores(node) {
            return 0;
        }
        let mut crowd = 0.0;
        for (constraint, weight, counts) in &preferred.constraints {
            let Some(domain) = node.label(&constraint.topology_key) else { continue };
            let count = match constraint.topology_key == HOSTNAME {
                true => constraint.matching(pod, node),
                false => counts.get(domain).copied().unwrap_or(0),
            };
            // A constraint that allows more skew lets small differences matter less.
            crowd += count as f64 * weight + (constraint.max_skew - 1) as f64;
        }
        crowd.round() as i64
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
