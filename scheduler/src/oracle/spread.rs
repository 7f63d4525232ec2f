//! Topology spread: count the matching pods of every domain, and compare with the emptiest.

use super::{Cluster, Labels, is_selected, label, labels, repels, spec};
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod, TopologySpreadConstraint};
use proto::meta::label_selector;
use std::collections::BTreeSet;

impl Cluster {
    /// Pods like this one on the node, as the constraint sees likeness.
    fn alike(&self, pod: &Pod, constraint: &TopologySpreadConstraint, node: &Node) -> i64 {
        // A selector that asks for nothing counts nobody.
        let asks = !label_selector::from_typed(constraint.label_selector.as_ref()).unwrap().is_empty()
            || constraint.match_label_keys.iter().flatten().any(|key| labels(pod).contains_key(key));
        let alike = |other: &&Pod| {
            asks && other.namespace() == pod.namespace()
                && !other.is_deleting()
                && is_meant(constraint, pod, &labels(other))
        };
        self.pods_on(node).filter(alike).count() as i64
    }

    pub(super) fn breaks_spread(&self, pod: &Pod, node: &Node) -> Option<&'static str> {
        let constraints = of_kind(pod, "DoNotSchedule");
        for constraint in &constraints {
            let Some(domain) = label(node, &constraint.topology_key) else {
                return Some("node(s) didn't match pod topology spread constraints (missing required label)");
            };
            let counted: Vec<&Node> = self
                .nodes
                .values()
                .filter(|node| is_inside(node, &constraints) && is_eligible(constraint, pod, node))
                .collect();
            let domains: BTreeSet<String> =
                counted.iter().filter_map(|node| label(node, &constraint.topology_key)).collect();
            let count = |domain: &String| -> i64 {
                let inside = counted.iter().filter(|n| label(n, &constraint.topology_key).as_ref() == Some(domain));
                inside.map(|node| self.alike(pod, constraint, node)).sum()
            };
            let enough = domains.len() as i64 >= i64::from(constraint.min_domains.unwrap_or(1));
            let least = if enough { domains.iter().map(count).min().unwrap_or(0) } else { 0 };
            let itself = i64::from(is_meant(constraint, pod, &labels(pod)));
            if count(&domain) + itself - least > i64::from(constraint.max_skew) {
                return Some("node(s) didn't match pod topology spread constraints");
            }
        }
        None
    }

    pub(super) fn spread_scores(&self, pod: &Pod, fit: &[&Node]) -> Option<Vec<i64>> {
        let own = spec(pod).topology_spread_constraints.is_some_and(|all| !all.is_empty());
        let constraints = if own { of_kind(pod, "ScheduleAnyway") } else { self.defaults(pod) };
        if constraints.is_empty() {
            return None;
        }
        let counts = |node: &Node| !own || is_inside(node, &constraints);
        let crowd = |node: &&Node| {
            let mut crowd = 0.0;
            for constraint in &constraints {
                let Some(domain) = label(node, &constraint.topology_key) else { continue };
                let by_host = constraint.topology_key == "kubernetes.io/hostname";
                let others: Vec<&Node> = match by_host {
                    true => vec![node],
                    false => {
                        let inside = self.nodes.values().filter(|n| counts(n) && is_eligible(constraint, pod, n));
                        inside.filter(|n| label(n, &constraint.topology_key).as_ref() == Some(&domain)).collect()
                    }
                };
                let alike: i64 = others.into_iter().map(|node| self.alike(pod, constraint, node)).sum();
                let scored = fit.iter().filter(|node| counts(node));
                let size = match by_host {
                    true => scored.count(),
                    false => scored.map(|n| label(n, &constraint.topology_key)).collect::<BTreeSet<_>>().len(),
                };
                crowd += alike as f64 * ((size + 2) as f64).ln() + f64::from(constraint.max_skew - 1);
            }
            crowd.round() as i64
        };
        let crowds: Vec<Option<i64>> = fit.iter().map(|node| counts(node).then(|| crowd(node))).collect();
        let least = crowds.iter().flatten().min().copied().unwrap_or(0);
        let most = crowds.iter().flatten().max().copied().unwrap_or(0);
        let score = |crowd: &Option<i64>| match crowd {
            None => 0,
            Some(_) if most == 0 => 100,
            Some(crowd) => 100 * (most + least - crowd) / most,
        };
        Some(crowds.iter().map(score).collect())
    }

    /// What a pod of a workload gets without asking.
    fn defaults(&self, pod: &Pod) -> Vec<TopologySpreadConstraint> {
        if pod.metadata.owner_references.is_none() {
            return Vec::new();
        }
        let constraint = |(max_skew, key): (i32, &str)| TopologySpreadConstraint {
            max_skew,
            topology_key: key.to_owned(),
            label_selector: Some(proto::kinds::metav1::LabelSelector {
                match_labels: Some(self.workload.clone()),
                ..Default::default()
            }),
            when_unsatisfiable: "ScheduleAnyway".to_owned(),
            ..TopologySpreadConstraint::default()
        };
        [(3, "kubernetes.io/hostname"), (5, "topology.kubernetes.io/zone")].map(constraint).into()
    }
}

fn of_kind(pod: &Pod, kind: &str) -> Vec<TopologySpreadConstraint> {
    let all = spec(pod).topology_spread_constraints.unwrap_or_default();
    all.into_iter().filter(|constraint| constraint.when_unsatisfiable == kind).collect()
}

/// The selector, and the pod's own values of `matchLabelKeys`.
fn is_meant(constraint: &TopologySpreadConstraint, pod: &Pod, other: &Labels) -> bool {
    let own = labels(pod);
    let keys = constraint.match_label_keys.clone().unwrap_or_default();
    let by_keys = keys.iter().all(|key| own.get(key).is_none_or(|value| other.get(key) == Some(value)));
    by_keys && label_selector::from_typed(constraint.label_selector.as_ref()).unwrap().matches(other)
}

/// The node is in some domain of every topology.
fn is_inside(node: &Node, constraints: &[TopologySpreadConstraint]) -> bool {
    constraints.iter().all(|constraint| label(node, &constraint.topology_key).is_some())
}

/// The constraint's policies let the node count.
fn is_eligible(constraint: &TopologySpreadConstraint, pod: &Pod, node: &Node) -> bool {
    let affinity = constraint.node_affinity_policy.as_deref() == Some("Ignore") || is_selected(node, pod);
    let taints = constraint.node_taints_policy.as_deref() != Some("Honor") || !repels(node, pod);
    affinity && taints
}
