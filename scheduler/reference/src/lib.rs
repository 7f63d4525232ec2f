//! The reference evaluator: a slow and simple evaluator of the default plugins, directly from the objects and the
//! definitions. Tests compare the plugins with it on random clusters.
//!
//! It has no caches or counters, and shares no code with the plugins but the selectors and quantities of `proto`.

mod affinity;
mod resources;
mod spread;

use proto::Kind;
use proto::kinds::api::core::v1::{Node, NodeSelectorTerm, Pod, PodSpec, Taint, Toleration};
use proto::kinds::metav1::LabelSelector;
use proto::meta::label_selector;
use proto::meta::selector::Selector;
use std::collections::BTreeMap;

pub type Labels = BTreeMap<String, String>;
/// The plugin that rejects a node, and its reasons; `None` if the pod fits.
pub type Verdict = Option<(&'static str, Vec<String>)>;

/// The objects of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    pub namespaces: BTreeMap<String, Labels>,
    pub nodes: BTreeMap<String, Node>,
    /// Pods with the names of their nodes, which may not exist.
    pub pods: BTreeMap<String, (Pod, String)>,
    /// Selector of all pods that have a controller.
    pub workload: Labels,
}

impl Cluster {
    fn pods_on<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a Pod> {
        self.pods.values().filter(|(_, on)| on == node.name()).map(|(pod, _)| pod)
    }

    /// Returns every pod whose node exists, with the node.
    fn placed(&self) -> impl Iterator<Item = (&Pod, &Node)> {
        self.pods.values().filter_map(|(pod, node)| Some((pod, self.nodes.get(node)?)))
    }

    fn namespace_labels(&self, namespace: &str) -> Labels {
        self.namespaces.get(namespace).cloned().unwrap_or_default()
    }

    /// Returns the rejection of the first default filter that rejects the node.
    pub fn verdict(&self, pod: &Pod, node: &Node) -> Verdict {
        let one = |plugin, reason: &str| Some((plugin, vec![reason.to_owned()]));
        let cordon =
            Taint { key: "node.kubernetes.io/unschedulable".into(), effect: "NoSchedule".into(), ..Taint::default() };
        if node.spec.as_ref().and_then(|s| s.unschedulable) == Some(true) && !tolerated(pod, &cordon) {
            return one("NodeUnschedulable", "node(s) were unschedulable");
        }
        if repels(node, pod) {
            return one("TaintToleration", "node(s) had untolerated taint(s)");
        }
        if !is_selected(node, pod) {
            return one("NodeAffinity", "node(s) didn't match Pod's node affinity/selector");
        }
        let taken: Vec<_> = self.pods_on(node).flat_map(ports).collect();
        let conflict = |a: &(String, i32, String), b: &(String, i32, String)| {
            a.0 == b.0 && a.1 == b.1 && (a.2 == b.2 || a.2 == "0.0.0.0" || b.2 == "0.0.0.0")
        };
        if ports(pod).iter().any(|port| taken.iter().any(|other| conflict(port, other))) {
            return one("NodePorts", "node(s) didn't have free ports for the requested pod ports");
        }
        self.lacks_resources(pod, node)
            .or_else(|| self.violates_spread(pod, node).map(|reason| ("PodTopologySpread", vec![reason.to_owned()])))
            .or_else(|| self.violates_affinity(pod, node).map(|reason| ("InterPodAffinity", vec![reason.to_owned()])))
    }

    /// Returns the normalized scores of the nodes that fit, by plugin. Skipped plugins are left out.
    pub fn scores(&self, pod: &Pod, fit: &[&Node]) -> BTreeMap<&'static str, Vec<i64>> {
        let all = |score: &dyn Fn(&Node) -> i64| fit.iter().map(|node| score(node)).collect::<Vec<i64>>();
        let soft = |node: &Node| {
            taints(node).iter().filter(|t| t.effect == "PreferNoSchedule" && !tolerated(pod, t)).count() as i64
        };
        let mut scores = BTreeMap::from([
            ("TaintToleration", to_highest(all(&soft)).into_iter().map(|score| 100 - score).collect()),
            ("NodeResourcesFit", all(&|node| self.least_allocated(pod, node))),
            ("ImageLocality", all(&|node| self.image_locality(pod, node))),
        ]);
        let preferred = spec(pod).affinity.and_then(|a| a.node_affinity);
        let preferred = preferred.and_then(|a| a.preferred_during_scheduling_ignored_during_execution);
        if let Some(terms) = preferred.filter(|terms| !terms.is_empty()) {
            let sum = |node: &Node| {
                let matching = terms.iter().filter(|term| term_matches(&term.preference, node));
                matching.map(|term| i64::from(term.weight)).sum::<i64>()
            };
            scores.insert("NodeAffinity", to_highest(all(&sum)));
        }
        if resources::of(pod).cpu > 0 || resources::of(pod).memory > 0 {
            scores.insert("NodeResourcesBalancedAllocation", all(&|node| self.balance_gain(pod, node)));
        }
        scores.extend(self.spread_scores(pod, fit).map(|scores| ("PodTopologySpread", scores)));
        scores.extend(self.affinity_scores(pod, fit).map(|scores| ("InterPodAffinity", scores)));
        scores
    }

    fn image_locality(&self, pod: &Pod, node: &Node) -> i64 {
        const MIB: i64 = 1 << 20;
        let has = |node: &Node, image: &str| {
            let images = node.status.iter().flat_map(|s| s.images.iter().flatten());
            images.filter(|i| i.names.iter().flatten().any(|name| name == image)).find_map(|i| i.size_bytes)
        };
        let containers = all_containers(&spec(pod)).len() as i64;
        let bytes: i64 = all_containers(&spec(pod))
            .iter()
            .filter_map(|container| {
                let image = format!("{}:latest", container.image.clone()?);
                let spread = self.nodes.values().filter(|node| has(node, &image).is_some()).count() as f64;
                Some((has(node, &image)? as f64 * (spread / self.nodes.len() as f64)) as i64)
            })
            .sum();
        let most = 1000 * MIB * containers;
        100 * (bytes.clamp(23 * MIB, most) - 23 * MIB) / (most - 23 * MIB)
    }
}

fn all_containers(spec: &PodSpec) -> Vec<proto::kinds::api::core::v1::Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers).cloned().collect()
}

/// Scales scores so that the highest becomes 100.
fn to_highest(scores: Vec<i64>) -> Vec<i64> {
    let highest = scores.iter().copied().max().unwrap_or(0);
    scores.into_iter().map(|score| if highest == 0 { 0 } else { score * 100 / highest }).collect()
}

fn spec(pod: &Pod) -> PodSpec {
    pod.spec.clone().unwrap_or_default()
}

fn labels(pod: &Pod) -> Labels {
    pod.metadata.labels.clone().unwrap_or_default()
}

fn label(node: &Node, key: &str) -> Option<String> {
    node.metadata.labels.as_ref()?.get(key).cloned()
}

fn taints(node: &Node) -> Vec<Taint> {
    node.spec.as_ref().and_then(|s| s.taints.clone()).unwrap_or_default()
}

fn tolerated(pod: &Pod, taint: &Taint) -> bool {
    let matches = |t: &Toleration| {
        let any_or = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|w| w.is_empty() || w == is);
        let value = || t.value.clone().unwrap_or_default() == taint.value.clone().unwrap_or_default();
        any_or(&t.effect, &taint.effect)
            && any_or(&t.key, &taint.key)
            && (t.operator.as_deref() == Some("Exists") || value())
    };
    spec(pod).tolerations.iter().flatten().any(matches)
}

/// Returns true if the pod does not tolerate a NoSchedule or NoExecute taint.
fn repels(node: &Node, pod: &Pod) -> bool {
    taints(node).iter().any(|taint| taint.effect != "PreferNoSchedule" && !tolerated(pod, taint))
}

/// Returns true if `nodeSelector` and required node affinity match the node.
fn is_selected(node: &Node, pod: &Pod) -> bool {
    let spec = spec(pod);
    let by_selector = spec.node_selector.iter().flatten().all(|(key, value)| label(node, key).as_ref() == Some(value));
    let required = spec.affinity.and_then(|a| a.node_affinity);
    let required = required.and_then(|a| a.required_during_scheduling_ignored_during_execution);
    by_selector && required.is_none_or(|r| r.node_selector_terms.iter().any(|term| term_matches(term, node)))
}

/// Matches a term. The tests generate only `In`, `NotIn` and `Exists` on labels.
fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.clone().unwrap_or_default();
    let holds = |e: &proto::kinds::api::core::v1::NodeSelectorRequirement| {
        let (value, values) = (label(node, &e.key), e.values.clone().unwrap_or_default());
        match e.operator.as_str() {
            "In" => value.is_some_and(|value| values.contains(&value)),
            "NotIn" => !value.is_some_and(|value| values.contains(&value)),
            _ => value.is_some(),
        }
    };
    !expressions.is_empty() && expressions.iter().all(holds)
}

/// Returns the protocol, number and address of each host port.
fn ports(pod: &Pod) -> Vec<(String, i32, String)> {
    let sidecars = spec(pod).init_containers.into_iter().flatten();
    let sidecars = sidecars.filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let ports = spec(pod).containers.into_iter().chain(sidecars).flat_map(|c| c.ports.unwrap_or_default());
    ports
        .filter_map(|p| {
            let address = p.host_ip.filter(|ip| !ip.is_empty()).unwrap_or_else(|| "0.0.0.0".to_owned());
            Some((p.protocol.unwrap_or_else(|| "TCP".to_owned()), p.host_port?, address))
        })
        .collect()
}

/// Returns a parsed selector. An invalid one selects nothing; the API server does not admit any.
fn selector_of(selector: Option<&LabelSelector>) -> Selector {
    label_selector::from_typed(selector).unwrap_or_else(|_| Selector::nothing())
}

#[cfg(test)]
mod tests;
