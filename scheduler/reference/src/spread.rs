//! Topology spread: counts the matching pods of every domain, and compares them with the domain that has the fewest.

use super::{Cluster, Labels, is_selected, label, labels, repels, selector_of, spec};
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod, TopologySpreadConstraint};
use std::collections::BTreeSet;

impl Cluster {
    /// Returns the number of pods on the node that the constraint counts.
    fn matching(&self, pod: &Pod, constraint: &TopologySpreadConstraint, node: &Node) -> i64 {
        // An empty selector counts no pod.
        let has_selector = !selector_of(constraint.label_selector.as_ref()).is_empty()
            || constraint.match_label_keys.iter().flatten().any(|key| labels(pod).contains_key(key));
        let matches = |other: &&Pod| {
            has_selector
                && other.namespace() == pod.namespace()
                && !other.is_deleting()
                && selects(constraint, pod, &labels(other))
        };
        self.pods_on(node).filter(matches).count() as i64
    }

    pub(super) fn violates_spread(&self, pod: &Pod, node: &Node) -> Option<&'static str> {
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
                inside.map(|node| self.matching(pod, constraint, node)).sum()
            };
            let enough = domains.len() as i64 >= i64::from(constraint.min_domains.unwrap_or(1));
            let least = if enough { domains.iter().map(count).min().unwrap_or(0) } else { 0 };
            let itself = i64::from(selects(constraint, pod, &labels(pod)));
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
        let total = |node: &&Node| {
            let mut total = 0.0;
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
                let matching: i64 = others.into_iter().map(|node| self.matching(pod, constraint, node)).sum();
                let scored = fit.iter().filter(|node| counts(node));
                let size = match by_host {
                    true => scored.count(),
                    false => scored.map(|n| label(n, &constraint.topology_key)).collect::<BTreeSet<_>>().len(),
                };
                total += matching as f64 * ((size + 2) as f64).ln() + f64::from(constraint.max_skew - 1);
            }
            total.round() as i64
        };
        let totals: Vec<Option<i64>> = fit.iter().map(|node| counts(node).then(|| total(node))).collect();
        let least = totals.iter().flatten().min().copied().unwrap_or(0);
        let most = totals.iter().flatten().max().copied().unwrap_or(0);
        let score = |total: &Option<i64>| match total {
            None => 0,
            Some(_) if most == 0 => 100,
            Some(total) => 100 * (most + least - total) / most,
        };
        Some(totals.iter().map(score).collect())
    }

    /// Returns the default constraints of a pod with a controller.
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

/// Returns true if the constraint's selector and the pod's values of `matchLabelKeys` match the labels.
fn selects(constraint: &TopologySpreadConstraint, pod: &Pod, other: &Labels) -> bool {
    let own = labels(pod);
    let keys = constraint.match_label_keys.clone().unwrap_or_default();
    let by_keys = keys.iter().all(|key| own.get(key).is_none_or(|value| other.get(key) == Some(value)));
    by_keys && selector_of(constraint.label_selector.as_ref()).matches(other)
}

/// Returns true if the node has all topology keys.
fn is_inside(node: &Node, constraints: &[TopologySpreadConstraint]) -> bool {
    constraints.iter().all(|constraint| label(node, &constraint.topology_key).is_some())
}

/// Returns true if the constraint's policies count the node.
fn is_eligible(constraint: &TopologySpreadConstraint, pod: &Pod, node: &Node) -> bool {
    let affinity = constraint.node_affinity_policy.as_deref() == Some("Ignore") || is_selected(node, pod);
    let taints = constraint.node_taints_policy.as_deref() != Some("Honor") || !repels(node, pod);
    affinity && taints
}
