//! What a pod says of nodes themselves: taints, node affinity, host ports, images.

use crate::{Cluster, Rejection, Settings, label, spec};
use proto::Kind;
use proto::kinds::api::core::v1::{
    Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PreferredSchedulingTerm, Taint,
    Toleration,
};
use serde::Deserialize;
use std::collections::BTreeSet;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AffinityArgs {
    added_affinity: Option<NodeAffinity>,
}

pub fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

pub fn tolerated(pod: &Pod, taint: &Taint) -> bool {
    let matches = |t: &Toleration| {
        let any_or = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|w| w.is_empty() || w == is);
        let value = || t.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default();
        any_or(&t.effect, &taint.effect)
            && any_or(&t.key, &taint.key)
            && (t.operator.as_deref() == Some("Exists") || value())
    };
    spec(pod).tolerations.iter().flatten().any(matches)
}

/// Returns true if the pod does not tolerate a NoSchedule or NoExecute taint.
pub fn repels(node: &Node, pod: &Pod) -> bool {
    taints(node).iter().any(|taint| taint.effect != "PreferNoSchedule" && !tolerated(pod, taint))
}

/// Rejects a node that is cordoned, unless the pod tolerates the taint of that.
pub fn is_cordoned(pod: &Pod, node: &Node) -> Option<Rejection> {
    let cordon =
        || Taint { key: "node.kubernetes.io/unschedulable".into(), effect: "NoSchedule".into(), ..Taint::default() };
    let is_cordoned = node.spec.as_ref().and_then(|s| s.unschedulable) == Some(true);
    (is_cordoned && !tolerated(pod, &cordon()))
        .then(|| Rejection::unresolvable("NodeUnschedulable", "node(s) were unschedulable"))
}

pub fn is_tainted(pod: &Pod, node: &Node) -> Option<Rejection> {
    repels(node, pod).then(|| Rejection::unresolvable("TaintToleration", "node(s) had untolerated taint(s)"))
}

pub fn is_another(pod: &Pod, node: &Node) -> Option<Rejection> {
    let name = spec(pod).node_name.as_deref().unwrap_or_default();
    let is_another = !name.is_empty() && name != node.name();
    is_another.then(|| Rejection::unresolvable("NodeName", "node(s) didn't match the requested node name"))
}

/// Rejects a node whose kubelet does not declare what the pod needs.
pub fn lacks_features(pod: &Pod, node: &Node) -> Option<Rejection> {
    let spec = spec(pod);
    let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let restarts_all = containers.any(|container| {
        container.restart_policy_rules.iter().flatten().any(|rule| rule.action == "RestartAllContainers")
    });
    let shares_network = spec.host_network == Some(true) && spec.host_users == Some(false);
    let needed =
        [("RestartAllContainersOnContainerExits", restarts_all), ("UserNamespacesHostNetworkSupport", shares_network)];
    let declared = node.status.as_ref().and_then(|status| status.declared_features.as_deref()).unwrap_or_default();
    let missing: Vec<&str> = needed
        .into_iter()
        .filter(|(name, is_needed)| *is_needed && !declared.iter().any(|one| one == name))
        .map(|(name, _)| name)
        .collect();
    (!missing.is_empty()).then(|| {
        let why = format!("node declared features check failed - unsatisfied requirements: {}", missing.join(", "));
        Rejection::unresolvable("NodeDeclaredFeatures", &why)
    })
}

fn required(affinity: Option<&NodeAffinity>) -> Option<&NodeSelector> {
    affinity?.required_during_scheduling_ignored_during_execution.as_ref()
}

fn of_pod(pod: &Pod) -> Option<&NodeAffinity> {
    spec(pod).affinity.as_ref()?.node_affinity.as_ref()
}

/// Returns the affinity that the profile adds to that of each pod.
pub fn added(settings: &Settings) -> Option<NodeAffinity> {
    settings.args::<AffinityArgs>("NodeAffinity").added_affinity
}

pub fn selector_matches(selector: &NodeSelector, node: &Node) -> bool {
    selector.node_selector_terms.iter().any(|term| term_matches(term, node))
}

/// Returns true if the node has what a selector of volumes, devices or pods asks for.
pub fn matches(selector: Option<&NodeSelector>, node: &Node) -> bool {
    selector.is_none_or(|selector| selector_matches(selector, node))
}

/// Returns true if `nodeSelector` and required node affinity match the node.
pub fn is_selected(node: &Node, pod: &Pod) -> bool {
    let mut selector = spec(pod).node_selector.iter().flatten();
    selector.all(|(key, value)| label(node, key) == Some(value)) && matches(required(of_pod(pod)), node)
}

fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    (!expressions.is_empty() || !fields.is_empty())
        && expressions.iter().all(|e| holds(e, label(node, &e.key)))
        && fields.iter().all(|e| holds(e, Some(node.name()).filter(|_| e.key == "metadata.name")))
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_listed = || value.is_some_and(|value| values.iter().any(|listed| listed == value));
    let numbers = || {
        let bound: i64 = values.first()?.parse().ok()?;
        Some((value?.parse::<i64>().ok()?, bound))
    };
    match requirement.operator.as_str() {
        "In" => is_listed(),
        "NotIn" => !is_listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// Returns the nodes that the pod names, if each of its terms does.
pub fn named(pod: &Pod) -> Result<Option<BTreeSet<&str>>, Rejection> {
    let Some(required) = required(of_pod(pod)) else { return Ok(None) };
    let mut all = BTreeSet::new();
    for term in &required.node_selector_terms {
        let fields = term.match_fields.iter().flatten();
        let by_name = fields.filter(|field| field.key == "metadata.name" && field.operator == "In");
        let sets: Vec<&[String]> = by_name.map(|field| field.values.as_deref().unwrap_or_default()).collect();
        let Some(first) = sets.first() else { return Ok(None) };
        let in_all = first.iter().filter(|name| sets.iter().all(|set| set.contains(name)));
        all.extend(in_all.map(String::as_str));
    }
    if required.node_selector_terms.is_empty() {
        return Ok(None);
    }
    match all.is_empty() {
        true => Err(Rejection::unresolvable("NodeAffinity", "pod affinity terms conflict")),
        false => Ok(Some(all)),
    }
}

/// Rejects a node that the profile's added affinity or the pod's own does not match.
pub fn is_not_selected(added: Option<&NodeAffinity>, pod: &Pod, node: &Node) -> Option<Rejection> {
    let reason = if !matches(required(added), node) {
        "node(s) didn't match scheduler-enforced node affinity"
    } else if !is_selected(node, pod) {
        "node(s) didn't match Pod's node affinity/selector"
    } else {
        return None;
    };
    Some(Rejection::unresolvable("NodeAffinity", reason))
}

/// Returns the weights of the preferences that a node has; `None` if there is no preference.
pub fn affinity_scores(settings: &Settings, pod: &Pod, fit: &[&Node]) -> Option<Vec<i64>> {
    let added = added(settings);
    let both = [added.as_ref(), of_pod(pod)].into_iter().flatten();
    let terms = both.flat_map(|it| it.preferred_during_scheduling_ignored_during_execution.iter().flatten());
    let terms: Vec<&PreferredSchedulingTerm> = terms.collect();
    if terms.is_empty() {
        return None;
    }
    let sum = |node: &Node| {
        let matching = terms.iter().filter(|term| term_matches(&term.preference, node));
        matching.map(|term| i64::from(term.weight)).sum::<i64>()
    };
    Some(to_highest(fit.iter().map(|node| sum(node)).collect()))
}

/// Scores the nodes by their taints that pods should rather avoid.
pub fn taint_scores(pod: &Pod, fit: &[&Node]) -> Vec<i64> {
    let soft = |node: &&Node| {
        taints(node).iter().filter(|t| t.effect == "PreferNoSchedule" && !tolerated(pod, t)).count() as i64
    };
    to_highest(fit.iter().map(soft).collect()).into_iter().map(|score| 100 - score).collect()
}

/// Scales scores so that the highest becomes 100.
pub fn to_highest(scores: Vec<i64>) -> Vec<i64> {
    let highest = scores.iter().copied().max().unwrap_or(0);
    scores.into_iter().map(|score| if highest == 0 { 0 } else { score * 100 / highest }).collect()
}

/// Returns the protocol, number and address of each host port.
fn ports(pod: &Pod) -> impl Iterator<Item = (&str, i32, &str)> {
    let sidecars = spec(pod).init_containers.iter().flatten();
    let sidecars = sidecars.filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let ports = spec(pod).containers.iter().chain(sidecars).flat_map(|c| c.ports.iter().flatten());
    ports.filter_map(|port| {
        let number = port.host_port.filter(|number| *number > 0)?;
        Some((or(port.protocol.as_deref(), "TCP"), number, or(port.host_ip.as_deref(), "0.0.0.0")))
    })
}

fn or<'a>(text: Option<&'a str>, default: &'static str) -> &'a str {
    text.filter(|text| !text.is_empty()).unwrap_or(default)
}

impl Cluster {
    pub(crate) fn has_port_conflict(&self, pod: &Pod, node: &Node) -> Option<Rejection> {
        let wanted: Vec<_> = ports(pod).collect();
        if wanted.is_empty() {
            return None;
        }
        let conflicts = |(protocol, number, address): (&str, i32, &str)| {
            wanted.iter().any(|own| {
                (own.0, own.1) == (protocol, number) && (own.2 == address || own.2 == "0.0.0.0" || address == "0.0.0.0")
            })
        };
        let is_taken = self.pods_on(node).any(|other| ports(other).any(conflicts));
        is_taken
            .then(|| Rejection::resolvable("NodePorts", "node(s) didn't have free ports for the requested pod ports"))
    }

    /// Returns more for nodes that have the images of the pod: the sum of their sizes, each times the part of all nodes
    /// that have it.
    pub(crate) fn image_locality(&self, pod: &Pod, fit: &[&Node]) -> Vec<i64> {
        const MIB: i64 = 1 << 20;
        let size = |node: &Node, image: &str| {
            let images = node.status.iter().flat_map(|s| s.images.iter().flatten());
            images
                .filter(|i| i.names.iter().flatten().any(|name| name == image))
                .filter_map(|i| i.size_bytes)
                .next_back()
        };
        let spec = spec(pod);
        let containers: Vec<Option<&str>> =
            spec.init_containers.iter().flatten().chain(&spec.containers).map(|c| c.image.as_deref()).collect();
        let volumes = spec.volumes.iter().flatten().filter_map(|v| v.image.as_ref()).map(|it| it.reference.as_deref());
        let most = 1000 * MIB * (containers.len() as i64).max(1);
        let images = containers.into_iter().chain(volumes).flatten().map(|image| {
            let file = image.rsplit('/').next().unwrap_or_default();
            let image = if file.contains(':') { image.to_owned() } else { format!("{image}:latest") };
            let nodes = self.nodes.values().filter(|node| size(node, &image).is_some()).count();
            (image, nodes as f64 / self.nodes.len() as f64)
        });
        let images: Vec<(String, f64)> = images.collect();
        let score = |node: &&Node| {
            let bytes = images.iter().filter_map(|(image, part)| Some((size(node, image)? as f64 * part) as i64));
            100 * (bytes.sum::<i64>().clamp(23 * MIB, most) - 23 * MIB) / (most - 23 * MIB)
        };
        fit.iter().map(score).collect()
    }
}
