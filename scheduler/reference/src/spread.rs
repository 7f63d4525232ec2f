//! Topology spread: counts the matching pods of every domain, and compares them with the domain that has the fewest.

use crate::nodes::{is_selected, repels};
use crate::selector::{is_empty, of_labels, selects};
use crate::{Cluster, Labels, Rejection, Settings, label, labels, spec};
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod, TopologySpreadConstraint};
use proto::kinds::metav1::LabelSelector;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

const NAME: &str = "PodTopologySpread";
const HOSTNAME: &str = "kubernetes.io/hostname";
const MISMATCH: &str = "node(s) didn't match pod topology spread constraints";
const MISSING_LABEL: &str = "node(s) didn't match pod topology spread constraints (missing required label)";

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Args {
    default_constraints: Vec<TopologySpreadConstraint>,
    defaulting_type: String,
}

/// A constraint of a pod.
struct Rule {
    key: String,
    max_skew: i64,
    min_domains: usize,
    /// A pod has to match all of them. A missing one selects nothing.
    selectors: Vec<Option<LabelSelector>>,
    /// The pod's own values of `matchLabelKeys`.
    same: Labels,
    honors_affinity: bool,
    honors_taints: bool,
}

impl Rule {
    fn new(pod: &Pod, constraint: &TopologySpreadConstraint) -> Self {
        let keys = constraint.match_label_keys.as_deref().unwrap_or_default();
        let own = labels(pod).iter().filter(|(key, _)| keys.contains(key));
        Self {
            key: constraint.topology_key.clone(),
            max_skew: constraint.max_skew.into(),
            min_domains: usize::try_from(constraint.min_domains.unwrap_or(1)).unwrap_or(1),
            selectors: vec![constraint.label_selector.clone()],
            same: own.map(|(key, value)| (key.clone(), value.clone())).collect(),
            honors_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
            honors_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
        }
    }

    fn selects(&self, other: &Labels) -> bool {
        self.selectors.iter().all(|selector| selects(selector.as_ref(), other))
            && self.same.iter().all(|(key, value)| other.get(key) == Some(value))
    }

    /// Returns how many of the pods on a node the constraint counts. An empty selector counts no pod.
    fn matching<'a>(&self, pod: &Pod, on_node: impl Iterator<Item = &'a Pod>) -> i64 {
        if self.same.is_empty() && self.selectors.iter().all(|selector| is_empty(selector.as_ref())) {
            return 0;
        }
        let counts =
            |other: &&Pod| other.namespace() == pod.namespace() && !other.is_deleting() && self.selects(labels(other));
        on_node.filter(counts).count() as i64
    }

    /// Returns the number of pods that the constraint counts in each domain.
    fn domains<'a>(
        &self,
        cluster: &'a Cluster,
        pod: &Pod,
        is_inside: impl Fn(&Node) -> bool,
    ) -> BTreeMap<&'a str, i64> {
        let mut counts = BTreeMap::new();
        let nodes = cluster.nodes_with_pods();
        for (node, pods) in nodes.filter(|(node, _)| is_inside(node) && self.is_eligible(pod, node)) {
            if let Some(domain) = label(node, &self.key) {
                *counts.entry(domain).or_insert(0) += self.matching(pod, pods);
            }
        }
        counts
    }

    /// Returns true if the constraint's policies count the node.
    fn is_eligible(&self, pod: &Pod, node: &Node) -> bool {
        (!self.honors_affinity || is_selected(node, pod)) && (!self.honors_taints || !repels(node, pod))
    }
}

/// The rules of a pod for one `whenUnsatisfiable`.
struct Rules {
    rules: Vec<Rule>,
    /// True if a node without one of the topology keys counts for no rule.
    needs_all_keys: bool,
}

impl Rules {
    fn of(cluster: &Cluster, settings: &Settings, pod: &Pod, when_unsatisfiable: &str) -> Self {
        let own = spec(pod).topology_spread_constraints.as_deref().unwrap_or_default();
        let is_wanted = |constraint: &&TopologySpreadConstraint| constraint.when_unsatisfiable == when_unsatisfiable;
        if !own.is_empty() {
            let rules = own.iter().filter(is_wanted).map(|constraint| Rule::new(pod, constraint)).collect();
            return Self { rules, needs_all_keys: true };
        }
        let args: Args = settings.args(NAME);
        let needs_all_keys = args.defaulting_type == "List";
        let defaults = if needs_all_keys { args.default_constraints } else { system_defaults() };
        let defaults: Vec<&TopologySpreadConstraint> = defaults.iter().filter(is_wanted).collect();
        if defaults.is_empty() {
            return Self { rules: Vec::new(), needs_all_keys };
        }
        let selectors = cluster.workload_selectors(pod);
        let rule =
            |constraint| Rule { selectors: selectors.clone(), same: Labels::new(), ..Rule::new(pod, constraint) };
        let rules = match selectors.iter().all(|selector| is_empty(selector.as_ref())) {
            true => Vec::new(),
            false => defaults.into_iter().map(rule).collect(),
        };
        Self { rules, needs_all_keys }
    }

    fn is_inside(&self, node: &Node) -> bool {
        !self.needs_all_keys || self.has_all_keys(node)
    }

    fn has_all_keys(&self, node: &Node) -> bool {
        self.rules.iter().all(|rule| label(node, &rule.key).is_some())
    }
}

/// Spreads over nodes a little, and over zones a little less.
fn system_defaults() -> Vec<TopologySpreadConstraint> {
    let constraint = |(max_skew, key): (i32, &str)| TopologySpreadConstraint {
        max_skew,
        topology_key: key.to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        ..TopologySpreadConstraint::default()
    };
    [(3, HOSTNAME), (5, "topology.kubernetes.io/zone")].map(constraint).into()
}

/// The required constraints of a pod, with the number of pods in each domain.
#[derive(Default)]
pub struct Required<'a>(Vec<(Rule, BTreeMap<&'a str, i64>)>);

impl<'a> Required<'a> {
    pub fn of(cluster: &'a Cluster, settings: &Settings, pod: &Pod) -> Self {
        let all = Rules::of(cluster, settings, pod, "DoNotSchedule");
        let counts: Vec<_> =
            all.rules.iter().map(|rule| rule.domains(cluster, pod, |node| all.has_all_keys(node))).collect();
        Self(all.rules.into_iter().zip(counts).collect())
    }

    pub fn reject(&self, pod: &Pod, node: &Node) -> Option<Rejection> {
        for (rule, counts) in &self.0 {
            let Some(domain) = label(node, &rule.key) else {
                return Some(Rejection::unresolvable(NAME, MISSING_LABEL));
            };
            // Without any domain, no count is the least.
            let Some(fewest) = counts.values().copied().min().or((rule.min_domains > 0).then_some(0)) else { continue };
            let least = if counts.len() < rule.min_domains { 0 } else { fewest };
            let itself = i64::from(rule.selects(labels(pod)));
            if counts.get(domain).copied().unwrap_or(0) + itself - least > rule.max_skew {
                return Some(Rejection::resolvable(NAME, MISMATCH));
            }
        }
        None
    }
}

impl Cluster {
    pub(crate) fn spread_scores(&self, settings: &Settings, pod: &Pod, fit: &[&Node]) -> Option<Vec<i64>> {
        let all = Rules::of(self, settings, pod, "ScheduleAnyway");
        if all.rules.is_empty() {
            return None;
        }
        let scored = || fit.iter().filter(|node| all.is_inside(node));
        let mut totals: Vec<Option<f64>> = fit.iter().map(|node| all.is_inside(node).then_some(0.0)).collect();
        for rule in &all.rules {
            let by_host = rule.key == HOSTNAME;
            let size = match by_host {
                true => scored().count(),
                false => scored().map(|n| label(n, &rule.key)).collect::<BTreeSet<_>>().len(),
            };
            let counts = if by_host { BTreeMap::new() } else { rule.domains(self, pod, |node| all.is_inside(node)) };
            for (node, total) in fit.iter().zip(&mut totals) {
                if let (Some(domain), Some(total)) = (label(node, &rule.key), total) {
                    let in_domain = || counts.get(domain).copied().unwrap_or(0);
                    let matching = if by_host {
                        rule.matching(pod, self.pods_on(node).map(|other| &**other))
                    } else {
                        in_domain()
                    };
                    *total += matching as f64 * ((size + 2) as f64).ln() + (rule.max_skew - 1) as f64;
                }
            }
        }
        let totals: Vec<Option<i64>> = totals.into_iter().map(|total| total.map(|it| it.round() as i64)).collect();
        let least = totals.iter().flatten().min().copied().unwrap_or(0);
        let most = totals.iter().flatten().max().copied().unwrap_or(0);
        let score = |total: &Option<i64>| match total {
            None => 0,
            Some(_) if most == 0 => 100,
            Some(total) => 100 * (most + least - total) / most,
        };
        Some(totals.iter().map(score).collect())
    }

    /// Returns the selectors of the Services that select a pod, and of its controller.
    fn workload_selectors(&self, pod: &Pod) -> Vec<Option<LabelSelector>> {
        let is_near = |namespace: &str| namespace == pod.namespace();
        let services = self.workloads.services.iter().filter(|service| is_near(service.namespace()));
        let selectors = services.filter_map(|service| service.spec.as_ref()?.selector.as_ref());
        let selectors = selectors.filter(|labels| !labels.is_empty()).map(of_labels);
        let mut found: Vec<Option<LabelSelector>> =
            selectors.map(Some).filter(|selector| selects(selector.as_ref(), labels(pod))).collect();
        let owners = pod.metadata.owner_references.iter().flatten();
        for owner in owners.filter(|owner| owner.controller == Some(true)).take(1) {
            let is_owner = |namespace: &str, name: &str| is_near(namespace) && name == owner.name;
            let workloads = &self.workloads;
            let selector = match owner.kind.as_str() {
                "ReplicaSet" => {
                    let found = workloads.replica_sets.iter().find(|it| is_owner(it.namespace(), it.name()));
                    found.and_then(|it| it.spec.as_ref()).map(|spec| spec.selector.clone())
                }
                "StatefulSet" => {
                    let found = workloads.stateful_sets.iter().find(|it| is_owner(it.namespace(), it.name()));
                    found.and_then(|it| it.spec.as_ref()).map(|spec| spec.selector.clone())
                }
                "ReplicationController" => {
                    let found = workloads.replication_controllers.iter().find(|it| is_owner(it.namespace(), it.name()));
                    found.and_then(|it| it.spec.as_ref()?.selector.as_ref()).map(of_labels)
                }
                _ => None,
            };
            found.extend(selector.map(Some));
        }
        found
    }
}
