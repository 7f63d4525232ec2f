//! Pod affinity and anti-affinity, from all other pods and their nodes.

use super::{Cluster, label, labels, selector_of, spec};
use proto::Kind;
use proto::kinds::api::core::v1::{Affinity, Node, Pod, PodAffinityTerm, WeightedPodAffinityTerm};
use std::collections::BTreeMap;

fn affinity(pod: &Pod) -> Affinity {
    spec(pod).affinity.unwrap_or_default()
}

fn required(pod: &Pod) -> Vec<PodAffinityTerm> {
    let terms = affinity(pod).pod_affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution);
    terms.unwrap_or_default()
}

fn required_anti(pod: &Pod) -> Vec<PodAffinityTerm> {
    let terms = affinity(pod).pod_anti_affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution);
    terms.unwrap_or_default()
}

/// Returns the preferred terms with their weights. Terms of anti-affinity have a negative weight.
fn preferred(pod: &Pod) -> Vec<(i64, PodAffinityTerm)> {
    let terms = affinity(pod).pod_affinity.and_then(|a| a.preferred_during_scheduling_ignored_during_execution);
    let anti = affinity(pod).pod_anti_affinity.and_then(|a| a.preferred_during_scheduling_ignored_during_execution);
    let weighted = |sign: i64| move |t: WeightedPodAffinityTerm| (sign * i64::from(t.weight), t.pod_affinity_term);
    let terms = terms.into_iter().flatten().map(weighted(1));
    terms.chain(anti.into_iter().flatten().map(weighted(-1))).collect()
}

fn same_domain(key: &str, a: &Node, b: &Node) -> bool {
    label(a, key).is_some() && label(a, key) == label(b, key)
}

impl Cluster {
    /// Returns true if a term of `owner` matches `other`.
    fn matches(&self, owner: &Pod, term: &PodAffinityTerm, other: &Pod) -> bool {
        let namespaces = term.namespaces.clone().unwrap_or_default();
        let by_selector = term.namespace_selector.as_ref().is_some_and(|selector| {
            let labels = self.namespace_labels(other.namespace());
            selector_of(Some(selector)).matches(&labels)
        });
        let own = namespaces.is_empty() && term.namespace_selector.is_none() && owner.namespace() == other.namespace();
        let namespace = own || by_selector || namespaces.iter().any(|name| name == other.namespace());
        let selector = selector_of(term.label_selector.as_ref());
        namespace && selector.matches(&labels(other))
    }

    pub(super) fn violates_affinity(&self, pod: &Pod, node: &Node) -> Option<&'static str> {
        let terms = required(pod);
        // The same pod has to match all terms.
        let matching: Vec<&Node> = self
            .placed()
            .filter(|(other, _)| terms.iter().all(|term| self.matches(pod, term, other)))
            .map(|(_, on)| on)
            .collect();
        let is_met = |term: &PodAffinityTerm| matching.iter().any(|on| same_domain(&term.topology_key, on, node));
        let has_no_match =
            || !matching.iter().any(|on| terms.iter().any(|term| label(on, &term.topology_key).is_some()));
        let has_domains = terms.iter().all(|term| label(node, &term.topology_key).is_some());
        let is_first_of_group = || has_no_match() && terms.iter().all(|term| self.matches(pod, term, pod));
        if !(has_domains && (terms.iter().all(is_met) || is_first_of_group())) {
            return Some("node(s) didn't match pod affinity rules");
        }
        let meets = |term: &PodAffinityTerm| {
            self.placed().any(|(other, on)| self.matches(pod, term, other) && same_domain(&term.topology_key, on, node))
        };
        if required_anti(pod).iter().any(meets) {
            return Some("node(s) didn't match pod anti-affinity rules");
        }
        let is_repelled = self.placed().any(|(other, on)| {
            let terms = required_anti(other);
            terms.iter().any(|term| self.matches(other, term, pod) && same_domain(&term.topology_key, on, node))
        });
        is_repelled.then_some("node(s) didn't satisfy existing pods anti-affinity rules")
    }

    pub(super) fn affinity_scores(&self, pod: &Pod, fit: &[&Node]) -> Option<Vec<i64>> {
        // Points by topology key and domain.
        let mut points: BTreeMap<(String, String), i64> = BTreeMap::new();
        let mut add = |on: &Node, key: &str, weight: i64| {
            if let Some(domain) = label(on, key) {
                *points.entry((key.to_owned(), domain)).or_insert(0) += weight;
            }
        };
        for (other, on) in self.placed() {
            for (weight, term) in preferred(pod).iter().filter(|(_, term)| self.matches(pod, term, other)) {
                add(on, &term.topology_key, *weight);
            }
            // A required term of another pod is worth one point, a preferred term its weight.
            let terms = required(other).into_iter().map(|term| (1, term)).chain(preferred(other));
            for (weight, term) in terms.filter(|(_, term)| self.matches(other, term, pod)) {
                add(on, &term.topology_key, weight);
            }
        }
        if points.is_empty() {
            return None;
        }
        let sum = |node: &&Node| -> i64 {
            points.iter().filter(|((key, domain), _)| label(node, key).as_ref() == Some(domain)).map(|(_, p)| p).sum()
        };
        let sums: Vec<i64> = fit.iter().map(sum).collect();
        let (least, most) = (*sums.iter().min()?, *sums.iter().max()?);
        let part = |sum: i64| if most > least { (sum - least) as f64 / (most - least) as f64 } else { 0.0 };
        Some(sums.iter().map(|sum| (100.0 * part(*sum)) as i64).collect())
    }
}
