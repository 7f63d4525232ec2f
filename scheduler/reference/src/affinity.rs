//! Pod affinity and anti-affinity, from all other pods and their nodes.

use crate::{Cluster, Labels, Rejection, Settings, label, labels, selector_of};
use proto::Kind;
use proto::kinds::api::core::v1::{Affinity, Node, Pod, PodAffinityTerm, WeightedPodAffinityTerm};
use proto::meta::selector::Selector;
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

/// A term of a pod, with its selectors parsed.
struct Term {
    key: String,
    selector: Selector,
    /// The pod's own values of `matchLabelKeys`, and those of `mismatchLabelKeys`.
    same: Labels,
    other: Labels,
    namespaces: Vec<String>,
    namespace_selector: Option<Selector>,
}

impl Term {
    fn new(owner: &Pod, term: PodAffinityTerm) -> Self {
        let own = labels(owner);
        let of = |keys: Option<Vec<String>>| -> Labels {
            let keys = keys.unwrap_or_default();
            own.iter().filter(|(key, _)| keys.contains(key)).map(|(k, v)| (k.clone(), v.clone())).collect()
        };
        let mut namespaces = term.namespaces.unwrap_or_default();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.push(owner.namespace().to_owned());
        }
        Self {
            key: term.topology_key,
            selector: selector_of(term.label_selector.as_ref()),
            same: of(term.match_label_keys),
            other: of(term.mismatch_label_keys),
            namespaces,
            namespace_selector: term.namespace_selector.as_ref().map(|selector| selector_of(Some(selector))),
        }
    }

    /// Returns true if the term matches a pod.
    fn matches(&self, cluster: &Cluster, pod: &Pod) -> bool {
        let by_name = || self.namespaces.iter().any(|name| name == pod.namespace());
        let by_selector = || {
            let selector = self.namespace_selector.as_ref();
            selector.is_some_and(|selector| selector.matches(&cluster.namespace_labels(pod.namespace())))
        };
        let theirs = labels(pod);
        self.selector.matches(&theirs)
            && self.same.iter().all(|(key, value)| theirs.get(key) == Some(value))
            && self.other.iter().all(|(key, value)| theirs.get(key) != Some(value))
            && (by_name() || by_selector())
    }
}

fn affinity(pod: &Pod) -> Affinity {
    pod.spec.as_ref().and_then(|spec| spec.affinity.clone()).unwrap_or_default()
}

fn required(pod: &Pod) -> Vec<Term> {
    let terms = affinity(pod).pod_affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution);
    terms.into_iter().flatten().map(|term| Term::new(pod, term)).collect()
}

fn required_anti(pod: &Pod) -> Vec<Term> {
    let terms = affinity(pod).pod_anti_affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution);
    terms.into_iter().flatten().map(|term| Term::new(pod, term)).collect()
}

/// Returns the preferred terms with their weights. Terms of anti-affinity have a negative weight.
fn preferred(pod: &Pod) -> Vec<(i64, Term)> {
    let terms = affinity(pod).pod_affinity.and_then(|a| a.preferred_during_scheduling_ignored_during_execution);
    let anti = affinity(pod).pod_anti_affinity.and_then(|a| a.preferred_during_scheduling_ignored_during_execution);
    let weighted =
        |sign: i64| move |t: WeightedPodAffinityTerm| (sign * i64::from(t.weight), Term::new(pod, t.pod_affinity_term));
    let terms = terms.into_iter().flatten().map(weighted(1));
    terms.chain(anti.into_iter().flatten().map(weighted(-1))).collect()
}

/// A topology key and a value of it.
type Domain = (String, String);

/// Where other pods allow and forbid a pod to be.
#[derive(Default)]
pub struct Neighbours {
    required: Vec<Term>,
    required_anti: Vec<Term>,
    /// Domains with a pod that matches all affinity terms.
    friends: BTreeSet<Domain>,
    /// Domains with a pod that matches an anti-affinity term.
    foes: BTreeSet<Domain>,
    /// Domains with a pod whose anti-affinity matches this pod.
    repelling: BTreeSet<Domain>,
    is_own_friend: bool,
}

fn domain(node: &Node, key: &str) -> Option<Domain> {
    Some((key.to_owned(), label(node, key)?))
}

impl Neighbours {
    pub fn of(cluster: &Cluster, pod: &Pod) -> Self {
        let (required, required_anti) = (required(pod), required_anti(pod));
        let (mut friends, mut foes, mut repelling) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (other, on) in cluster.placed() {
            // The same pod has to match all terms.
            if required.iter().all(|term| term.matches(cluster, other)) {
                friends.extend(required.iter().filter_map(|term| domain(on, &term.key)));
            }
            let anti = required_anti.iter().filter(|term| term.matches(cluster, other));
            foes.extend(anti.filter_map(|term| domain(on, &term.key)));
            let theirs = self::required_anti(other);
            let theirs = theirs.iter().filter(|term| term.matches(cluster, pod));
            repelling.extend(theirs.filter_map(|term| domain(on, &term.key)));
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
        let is_in = |domains: &BTreeSet<Domain>, key: &str| domain(node, key).is_some_and(|it| domains.contains(&it));
        let has_domains = self.required.iter().all(|term| label(node, &term.key).is_some());
        let is_met = self.required.iter().all(|term| is_in(&self.friends, &term.key));
        let is_first_of_group = self.friends.is_empty() && self.is_own_friend;
        if !(has_domains && (is_met || is_first_of_group)) {
            return Some(Rejection::unresolvable(NAME, "node(s) didn't match pod affinity rules"));
        }
        if self.required_anti.iter().any(|term| is_in(&self.foes, &term.key)) {
            return Some(Rejection::resolvable(NAME, "node(s) didn't match pod anti-affinity rules"));
        }
        let is_repelled = self.repelling.iter().any(|(key, value)| label(node, key).as_ref() == Some(value));
        is_repelled.then(|| Rejection::resolvable(NAME, "node(s) didn't satisfy existing pods anti-affinity rules"))
    }
}

impl Cluster {
    pub(crate) fn affinity_scores(&self, settings: &Settings, pod: &Pod, fit: &[&Node]) -> Option<Vec<i64>> {
        let args: Args = settings.args("InterPodAffinity");
        let own = preferred(pod);
        if own.is_empty() && args.ignore_preferred_terms_of_existing_pods {
            return None;
        }
        let mut points: BTreeMap<Domain, i64> = BTreeMap::new();
        let mut add = |on: &Node, key: &str, weight: i64| {
            if let Some(domain) = domain(on, key) {
                *points.entry(domain).or_insert(0) += weight;
            }
        };
        for (other, on) in self.placed() {
            for (weight, term) in own.iter().filter(|(_, term)| term.matches(self, other)) {
                add(on, &term.key, *weight);
            }
            // A required term of another pod has the weight of the arguments, a preferred term its own.
            let hard = required(other).into_iter().map(|term| (args.hard_pod_affinity_weight, term));
            let hard = hard.filter(|(weight, _)| *weight > 0);
            for (weight, term) in hard.chain(preferred(other)).filter(|(_, term)| term.matches(self, pod)) {
                add(on, &term.key, weight);
            }
        }
        if points.is_empty() {
            return None;
        }
        let sum = |node: &&Node| -> i64 {
            points.iter().filter(|((key, value), _)| label(node, key).as_ref() == Some(value)).map(|(_, p)| p).sum()
        };
        let sums: Vec<i64> = fit.iter().map(sum).collect();
        let (least, most) = (*sums.iter().min()?, *sums.iter().max()?);
        let part = |sum: i64| if most > least { (sum - least) as f64 / (most - least) as f64 } else { 0.0 };
        Some(sums.iter().map(|sum| (100.0 * part(*sum)) as i64).collect())
    }
}
