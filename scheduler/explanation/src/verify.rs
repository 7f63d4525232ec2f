//! Compares an explanation with the reference evaluator, which shares no code with the plugins.
//!
//! An attempt keeps nodes and pods. All other objects are those of now for both: the plugins of the explanation read their caches,
//! and the evaluator gets the same objects. Where a decision depends on what the evaluator does not know, nothing is compared.

use crate::attempt::Attempt;
use crate::document::{Explanation, NodeVerdict, Verification};
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Volume};
use scheduler_reference::{Cluster, Settings};
use scheduling_framework::Profile;
use scheduling_framework::cache::Snapshot;

/// Most differences that are listed.
const MAX_DIFFERENCES: usize = 20;

/// Compares an explanation of an attempt with what the reference evaluator says about its snapshot. `surroundings` has the objects
/// besides nodes and pods; without them, pods that need such objects are not judged.
pub fn verify(
    attempt: &Attempt,
    snapshot: &Snapshot,
    explanation: &Explanation,
    surroundings: Option<&Cluster>,
) -> Verification {
    let settings = settings(&attempt.profile);
    let unknown = unknown(attempt, &settings, snapshot, explanation, surroundings);
    if !unknown.is_empty() {
        return Verification { unknown, ..Verification::default() };
    }
    let (cluster, pod) = (cluster(snapshot, surroundings.cloned().unwrap_or_default()), &*attempt.pod.pod);
    let (mut differences, mut compared) = (Vec::new(), 0);
    let verdicts = cluster.evaluate(pod, &settings).verdicts;
    // Of a what-if with one candidate, only that is compared.
    let is_candidate = |node: &&NodeVerdict| explanation.only_candidate().is_none_or(|only| only == node.name);
    for node in explanation.nodes.iter().filter(is_candidate) {
        let Some(theirs) = verdicts.get(&node.name) else { continue };
        compared += 1;
        let ours = first_rejection(node);
        let theirs = theirs.clone().map(|rejection| (rejection.plugin.to_owned(), rejection.reasons));
        if theirs != ours {
            let say = |verdict: &Option<(String, Vec<String>)>| match verdict {
                None => "it fits".to_owned(),
                Some((plugin, reasons)) => format!("{plugin}: {}", reasons.join(", ")),
            };
            differences.push(format!("{}: {}; the reference: {}", node.name, say(&ours), say(&theirs)));
        }
    }
    let scored: Vec<&NodeVerdict> = explanation.nodes.iter().filter(|node| !node.scores.is_empty()).collect();
    let objects: Vec<&Node> =
        scored.iter().filter_map(|node| cluster.nodes.get(&node.name)).map(|node| &**node).collect();
    let theirs = cluster.score(pod, &settings, &objects);
    for node in &scored {
        for ours in node.scores.iter().filter(|ours| !explanation.stale_scores.contains(&ours.plugin)) {
            let plugin = theirs.iter().find(|plugin| plugin.plugin == ours.plugin);
            let theirs = plugin.and_then(|plugin| plugin.scores.get(&node.name)).copied();
            compared += 1;
            if theirs != Some(ours.score) {
                let theirs = theirs.map_or("none".to_owned(), |score| score.to_string());
                differences.push(format!("{}: {} {}; the reference: {theirs}", node.name, ours.plugin, ours.score));
            }
        }
    }
    differences.truncate(MAX_DIFFERENCES);
    Verification { unknown, compared, skipped: explanation.stale_scores.clone(), differences }
}

fn first_rejection(node: &NodeVerdict) -> Option<(String, Vec<String>)> {
    let rejecting = node.filters.iter().find(|filter| !filter.reasons.is_empty())?;
    Some((rejecting.plugin.clone(), rejecting.reasons.clone()))
}

/// Returns what the evaluator has to know of a profile.
fn settings(profile: &Profile) -> Settings {
    Settings {
        pre_filters: profile.pre_filter.iter().map(|plugin| plugin.name().to_owned()).collect(),
        filters: profile.filter.iter().map(|plugin| plugin.name().to_owned()).collect(),
        scores: profile.score.iter().map(|(plugin, weight)| (plugin.name().to_owned(), *weight)).collect(),
        args: profile.args.clone(),
    }
}

/// Returns the parts of an attempt that the evaluator does not know.
fn unknown(
    attempt: &Attempt,
    settings: &Settings,
    snapshot: &Snapshot,
    explanation: &Explanation,
    surroundings: Option<&Cluster>,
) -> Vec<String> {
    let spec = attempt.pod.spec();
    let mut unknown: Vec<String> =
        settings.unknown().into_iter().map(|plugin| format!("the plugin {plugin}")).collect();
    unknown.dedup();
    let mut note = |is_unknown: bool, what: &str| {
        if is_unknown {
            unknown.push(what.to_owned());
        }
    };
    note(attempt.had_extenders(), "extenders");
    match surroundings {
        Some(surroundings) => {
            surroundings.unknown_devices(&attempt.pod.pod).into_iter().for_each(|what| note(true, what));
        }
        None => {
            note(spec.volumes.iter().flatten().any(is_storage), "volumes with storage");
            note(spec.resource_claims.iter().flatten().next().is_some(), "resource claims");
            let is_of_node = |resource: &str| snapshot.nodes().iter().any(|node| node.allocatable.get(resource) > 0);
            note(attempt.pod.requests.scalar.keys().any(|name| !is_of_node(name)), "resources of device classes");
            let mut owners = attempt.pod.pod.metadata.owner_references.iter().flatten();
            let is_owned = owners.any(|owner| owner.controller == Some(true));
            let spreads = spec.topology_spread_constraints.iter().flatten().next().is_some();
            note(is_owned && !spreads, "default spreading of a workload's pods");
        }
    }
    note(
        explanation.nodes.iter().any(|node| !node.nominated_pods.is_empty()),
        "other pods that are nominated to nodes",
    );
    unknown
}

fn is_storage(volume: &Volume) -> bool {
    volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some() || volume.csi.is_some()
}

/// Adds the objects of a snapshot.
fn cluster(snapshot: &Snapshot, mut cluster: Cluster) -> Cluster {
    for (name, labels) in snapshot.namespaces().iter() {
        cluster.namespaces.insert(name.clone(), labels.clone());
    }
    for node in snapshot.nodes() {
        let Some(object) = &node.node else { continue };
        cluster.set_node(object.clone());
        for pod in &node.pods {
            cluster.place(pod.labelled(), object.name());
        }
    }
    cluster
}
