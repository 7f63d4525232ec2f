//! Compares an explanation with the reference evaluator, which shares no code with the plugins.
//!
//! The evaluator knows the default plugins about nodes and pods. A pod with other constraints is not compared.

use crate::attempt::Attempt;
use crate::document::{Explanation, NodeVerdict, Verification};
use proto::Kind;
use proto::kinds::api::core::v1::{Node, NodeSelectorTerm, PodSpec, Volume};
use scheduler_reference::Cluster;
use scheduling_framework::cache::Snapshot;
use scheduling_framework::configuration::profile::{DEFAULT_SCHEDULER, ProfileConfiguration};
use std::collections::{BTreeMap, BTreeSet};

/// Most differences that are listed.
const MAX_DIFFERENCES: usize = 20;

/// Compares an explanation of an attempt with what the reference evaluator says about its snapshot.
pub fn verify(attempt: &Attempt, snapshot: &Snapshot, explanation: &Explanation) -> Verification {
    let unknown = unknown(attempt, explanation);
    if !unknown.is_empty() {
        return Verification { unknown, ..Verification::default() };
    }
    let (cluster, pod) = (cluster(snapshot), &*attempt.pod.pod);
    let (mut differences, mut compared) = (Vec::new(), 0);
    for node in &explanation.nodes {
        let Some(object) = cluster.nodes.get(&node.name) else { continue };
        compared += 1;
        let (theirs, ours) = (cluster.verdict(pod, object), first_rejection(node));
        let theirs = theirs.map(|(plugin, reasons)| (plugin.to_owned(), reasons));
        if theirs != ours {
            let say = |verdict: &Option<(String, Vec<String>)>| match verdict {
                None => "it fits".to_owned(),
                Some((plugin, reasons)) => format!("{plugin}: {}", reasons.join(", ")),
            };
            differences.push(format!("{}: {}; the reference: {}", node.name, say(&ours), say(&theirs)));
        }
    }
    let scored: Vec<&NodeVerdict> = explanation.nodes.iter().filter(|node| !node.scores.is_empty()).collect();
    let objects: Vec<&Node> = scored.iter().filter_map(|node| cluster.nodes.get(&node.name)).collect();
    let theirs = if objects.is_empty() { BTreeMap::new() } else { cluster.scores(pod, &objects) };
    for (at, node) in scored.iter().enumerate() {
        for ours in &node.scores {
            let theirs = theirs.get(ours.plugin.as_str()).and_then(|scores| scores.get(at)).copied();
            compared += 1;
            if theirs != Some(ours.score) {
                let theirs = theirs.map_or("none".to_owned(), |score| score.to_string());
                differences.push(format!("{}: {} {}; the reference: {theirs}", node.name, ours.plugin, ours.score));
            }
        }
    }
    differences.truncate(MAX_DIFFERENCES);
    Verification { unknown, compared, differences }
}

fn first_rejection(node: &NodeVerdict) -> Option<(String, Vec<String>)> {
    let rejecting = node.filters.iter().find(|filter| !filter.reasons.is_empty())?;
    Some((rejecting.plugin.clone(), rejecting.reasons.clone()))
}

/// Returns the parts of an attempt that the evaluator does not know.
fn unknown(attempt: &Attempt, explanation: &Explanation) -> Vec<String> {
    let (spec, mut unknown) = (attempt.pod.spec(), Vec::new());
    let mut note = |is_unknown: bool, what: &str| {
        if is_unknown {
            unknown.push(what.to_owned());
        }
    };
    note(!is_default(attempt), "a profile that differs from the default one");
    note(spec.volumes.iter().flatten().any(is_storage), "volumes with storage");
    note(!spec.resource_claims.iter().flatten().collect::<Vec<_>>().is_empty(), "resource claims");
    note(terms(spec).any(|term| !is_simple(term)), "node affinity by fields, or with Gt, Lt or DoesNotExist");
    let owned = attempt.pod.pod.metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true));
    let spreads = spec.topology_spread_constraints.iter().flatten().next().is_some();
    note(owned && !spreads, "default spreading of a workload's pods");
    note(
        explanation.nodes.iter().any(|node| !node.nominated_pods.is_empty()),
        "other pods that are nominated to nodes",
    );
    unknown
}

/// Returns true if the attempt's profile has the plugins and weights of the default one.
fn is_default(attempt: &Attempt) -> bool {
    let default = ProfileConfiguration::with_defaults(DEFAULT_SCHEDULER).plugins;
    let profile = &attempt.profile;
    let present: BTreeSet<&str> = profile.plugins.iter().map(|plugin| plugin.name()).collect();
    let weights = default.weights();
    let weight_of = |plugin: &str| weights.get(plugin).copied().unwrap_or(1);
    // How a pod is bound makes no difference here.
    default.names().into_iter().filter(|name| *name != "DefaultBinder").all(|name| present.contains(name))
        && profile.score.iter().all(|(plugin, weight)| *weight == weight_of(plugin.name()))
}

fn is_storage(volume: &Volume) -> bool {
    volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some() || volume.csi.is_some()
}

fn terms(spec: &PodSpec) -> impl Iterator<Item = &NodeSelectorTerm> {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    let preferred = affinity.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    let required = required.into_iter().flat_map(|required| &required.node_selector_terms);
    required.chain(preferred.into_iter().flatten().map(|term| &term.preference))
}

fn is_simple(term: &NodeSelectorTerm) -> bool {
    let mut operators = term.match_expressions.iter().flatten().map(|expression| expression.operator.as_str());
    term.match_fields.iter().flatten().next().is_none()
        && operators.all(|operator| matches!(operator, "In" | "NotIn" | "Exists"))
}

/// Returns the objects of a snapshot.
fn cluster(snapshot: &Snapshot) -> Cluster {
    let mut cluster = Cluster::default();
    for (name, labels) in snapshot.namespaces().iter() {
        cluster.namespaces.insert(name.clone(), labels.clone());
    }
    for node in snapshot.nodes() {
        let Some(object) = &node.node else { continue };
        cluster.nodes.insert(object.name().to_owned(), (**object).clone());
        for pod in &node.pods {
            cluster.pods.insert(pod.uid().to_owned(), ((*pod.pod).clone(), object.name().to_owned()));
        }
    }
    cluster
}
