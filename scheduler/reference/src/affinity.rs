//! Pod affinity and anti-affinity, from all other pods and their nodes.

use crate::selector::selects;
use crate::{Cluster, Rejection, Settings, label, labels, spec};
use proto::Kind;
use proto::kinds::api::core::v1::{Affinity, Node, Pod, PodAffinityTerm, WeightedPodAffinityTerm};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Args {
    hard_pod_affinity_weight: i64,
    ignore_preferred_terms_of_existing_pods: bool,
}

impl Default for Args {
    fn default() -> Self {
        Self { hard_pod_affinity_weight: 1, ignore_preferred_terms_of_existing_pods: false }
    }
}

/// A term of a pod.
#[derive(Clone, Copy)]
struct Term<'a> {
    owner: &'a Pod,
    term: &'a PodAffinityTerm,
}

impl<'a> Term<'a> {
    fn key(&self) -> &'a str {
        &self.term.topology_key
    }

    /// Returns true if the term matches a pod.
    fn matches(&self, cluster: &Cluster, pod: &Pod) -> bool {
        let (theirs, own) = (labels(pod), labels(self.owner));
        // A key that the owner of the term does not have says nothing.
        let mut same = self.term.match_label_keys.iter().flatten();
        let mut other = self.term.mismatch_label_keys.iter().flatten();
        selects(self.term.label_selector.as_ref(), theirs)
            && same.all(|key| own.get(key).is_none_or(|value| theirs.get(key) == Some(value)))
            && other.all(|key| own.get(key).is_none_or(|value| theirs.get(key) != Some(value)))
            && self.reaches(cluster, pod.namespace())
    }

    /// Returns true if the term looks at the pods of a namespace.
    fn reaches(&self, cluster: &Cluster, namespace: &str) -> bool {
        let names = self.term.namespaces.as_deref().unwrap_or_default();
        let by_labels = self.term.namespace_selector.as_ref();
        if names.is_empty() && by_labels.is_none() {
            return namespace == self.owner.namespace();
        }
        names.iter().any(|name| name == namespace)
            || by_labels.is_some_and(|selector| selects(Some(selector), cluster.namespace_labels(namespace)))
    }
}

fn affinity(pod: &Pod) -> Option<&Affinity> {
    spec(pod).affinity.as_ref()
}

fn required(pod: &Pod) -> impl Iterator<Item = Term<'_>> {
    let of_pods = affinity(pod).and_then(|affinity| affinity.pod_affinity.as_ref());
    let terms = of_pods.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    terms.into_iter().flatten().map(move |term| Term { owner: pod, term })
}

fn required_anti(pod: &Pod) -> impl Iterator<Item = Term<'_>> {
    let of_pods = affinity(pod).and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let terms = of_pods.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    terms.into_iter().flatten().map(move |term| Term { owner: pod, term })
}

/// Returns the preferred terms with their weights. Terms of anti-affinity have a negative weight.
fn preferred<'a>(pod: &'a Pod) -> impl Iterator<Item = (i64, Term<'a>)> {
    let (with, without) = match affinity(pod) {
        Some(affinity) => (affinity.pod_affinity.as_ref(), affinity.pod_anti_affinity.as_ref()),
        None => (None, None),
    };
    let with = with.and_then(|it| it.preferred_during_scheduling_ignored_during_execution.as_ref());
    let without = without.and_then(|it| it.preferred_during_scheduling_ignored_during_execution.as_ref());
    let with = with.into_iter().flatten().map(|it| (1, it));
    let without = without.into_iter().flatten().map(|it| (-1, it));
    let weighted = move |(sign, it): (i64, &'a WeightedPodAffinityTerm)| {
        (sign * i64::from(it.weight), Term { owner: pod, term: &it.pod_affinity_term })
    };
    with.chain(without).map(weighted)
}

/// A topology key and a value of it.
type Domain<'a> = (&'a str, &'a str);

/// Where other pods allow and forbid a pod to be.
#[derive(Default)]
pub struct Neighbours<'a> {
    required: Vec<Term<'a>>,
    required_anti: Vec<Term<'a>>,
    /// Domains with a pod that matches all affinity terms.
    friends: BTreeSet<Domain<'a>>,
    /// Domains with a pod that matches an anti-affinity term.
    foes: BTreeSet<Domain<'a>>,
    /// Domains with a pod whose anti-affinity matches this pod.
    repelling: BTreeSet<Domain<'a>>,
    is_own_friend: bool,
}

fn domain<'a>(node: &'a Node, key: &'a str) -> Option<Domain<'a>> {
    Some((key, label(node, key)?))
}

impl<'a> Neighbours<'a> {
    pub fn of(cluster: &'a Cluster, pod: &'a Pod) -> Self {
        let required: Vec<Term<'a>> = required(pod).collect();
        let required_anti: Vec<Term<'a>> = required_anti(pod).collect();
        let (mut friends, mut foes, mut repelling) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (other, on) in cluster.placed() {
            // The same pod has to match all terms.
            if !required.is_empty() && required.iter().all(|term| term.matches(cluster, other)) {
                friends.extend(required.iter().filter_map(|term| domain(on, term.key())));
            }
            let anti = required_anti.iter().filter(|term| term.matches(cluster, other));
            foes.extend(anti.filter_map(|term| domain(on, term.key())));
            let theirs = self::required_anti(other).filter(|term| term.matches(cluster, pod));
            repelling.extend(theirs.filter_map(|term| domain(on, term.key())));
        }
        let is_own_friend = required.iter().all(|term| term.matches(cluster, pod));
        Self { required, required_anti, friends, foes, repelling, is_own_friend }
    }

    /// Returns true if no node can be rejected.
    pub fn is_indifferent(&self) -> bool {
        self.required.is_empty() && self.required_anti.is_empty() && self.repelling.is_empty()
    }

    pub fn reject(&self, node: &Node) -> Option<Rejection> {
        const NAME: &str = "InterPodAffinity";
        let is_in =
            |domains: &BTreeSet<Domain<'_>>, key: &str| label(node, key).is_some_and(|it| domains.contains(&(key, it)));
        let has_domains = self.required.iter().all(|term| label(node, term.key()).is_some());
        let is_met = self.required.iter().all(|term| is_in(&self.friends, term.key()));
        let is_first_of_group = self.friends.is_empty() && self.is_own_friend;
        if !(has_domains && (is_met || is_first_of_group)) {
            return Some(Rejection::unresolvable(NAME, "node(s) didn't match pod affinity rules"));
        }
        if self.required_anti.iter().any(|term| is_in(&self.foes, term.key())) {
            return Some(Rejection::resolvable(NAME, "node(s) didn't match pod anti-affinity rules"));
        }
        let mut own = node.metadata.labels.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
        let is_repelled = own.any(|domain| self.repelling.contains(&domain));
        is_repelled.then(|| Rejection::resolvable(NAME, "node(s) didn't satisfy existing pods anti-affinity rules"))
    }
}

impl Cluster {
    pub(crate) fn affinity_scores(&self, settings: &Settings, pod: &Pod, fit: &[&Node]) -> Option<Vec<i64>> {
        let args: Args = settings.args("InterPodAffinity");
        let own: Vec<(i64, Term<'_>)> = preferred(pod).collect();
        if own.is_empty() && args.ignore_preferred_terms_of_existing_pods {
            return None;
        }
        let mut points: BTreeMap<Domain<'_>, i64> = BTreeMap::new();
        for (other, on) in self.placed() {
            let own = own.iter().copied().filter(|(_, term)| term.matches(self, other));
            // A required term of another pod has the weight of the arguments, a preferred term its own.
            let hard = required(other).map(|term| (args.hard_pod_affinity_weight, term));
            let hard = hard.filter(|(weight, _)| *weight > 0);
            let theirs = hard.chain(preferred(other)).filter(|(_, term)| term.matches(self, pod));
            for (weight, term) in own.chain(theirs) {
                if let Some(domain) = domain(on, term.key()) {
                    *points.entry(domain).or_insert(0) += weight;
                }
            }
        }
        if points.is_empty() {
            return None;
        }
        let sum = |node: &&Node| -> i64 {
            let own = node.metadata.labels.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
            own.filter_map(|domain| points.get(&domain)).sum()
        };
        let sums: Vec<i64> = fit.iter().map(sum).collect();
        let (least, most) = (*sums.iter().min()?, *sums.iter().max()?);
        let part = |sum: i64| if most > least { (sum - least) as f64 / (most - least) as f64 } else { 0.0 };
        Some(sums.iter().map(|sum| (100.0 * part(*sum)) as i64).collect())
    }
}
