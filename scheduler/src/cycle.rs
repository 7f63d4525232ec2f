//! One scheduling cycle: from a pod and a snapshot to the node it goes to, or to the reasons why it goes nowhere.
//!
//! Corresponds to pkg/scheduler/schedule_one.go. Pure: no clock, no API; the same snapshot, rotation and seed make the
//! same decision.

use crate::cache::{NodeInfo, Snapshot};
use crate::framework::profile::PluginScores;
use crate::framework::{CycleState, Diagnosis, FitError, Nominated, Profile, Rejection};
use crate::pod_info::PodInfo;
use component_base::rng::Random;
use std::sync::Arc;

/// Fewer nodes than this are all looked at.
const MIN_FEASIBLE_NODES_TO_FIND: usize = 100;
/// However large the cluster, at least this part of it is looked at.
const MIN_PERCENTAGE_OF_NODES_TO_FIND: usize = 5;

/// What one cycle takes over from the one before.
#[derive(Debug, Default)]
pub struct Rotation {
    /// Where the next search begins, so that all nodes have their turn.
    next_start: usize,
}

/// Where the pod goes, and why.
#[derive(Debug)]
pub struct Decision {
    pub node: String,
    /// Nodes that were looked at, and the names of those on which the pod fits.
    pub evaluated: usize,
    pub feasible: Vec<String>,
    /// In the order of `feasible`; empty where there was nothing to choose.
    pub scores: Vec<PluginScores>,
}

/// Finds the node for a pod. What plugins have found out on the way is left in `state`.
pub fn schedule_one(
    profile: &Profile,
    state: &mut CycleState,
    pod: &PodInfo,
    snapshot: &Snapshot,
    nominated: &Nominated,
    rotation: &mut Rotation,
    random: &Random,
) -> Result<Decision, FitError> {
    if snapshot.nodes().is_empty() {
        return Err(FitError::NoNodes);
    }
    let (feasible, evaluated) = find_feasible(profile, state, pod, snapshot, nominated, rotation)?;
    let feasible: Vec<&NodeInfo> = feasible.iter().map(|node| &***node).collect();
    let scores = match feasible.len() {
        1 => Vec::new(),
        _ => profile.run_score(state, pod, snapshot, &feasible),
    };
    let chosen = select_host(feasible.len(), &scores, random);
    let feasible: Vec<String> = feasible.iter().map(|node| node.name().to_owned()).collect();
    Ok(Decision { node: feasible[chosen].clone(), evaluated, feasible, scores })
}

/// The nodes that pass all filters, up to the number that is enough, and how many were looked at.
fn find_feasible<'a>(
    profile: &Profile,
    state: &mut CycleState,
    pod: &PodInfo,
    snapshot: &'a Snapshot,
    nominated: &Nominated,
    rotation: &mut Rotation,
) -> Result<(Vec<&'a Arc<NodeInfo>>, usize), FitError> {
    let all_nodes = snapshot.nodes().len();
    let candidates = profile
        .run_pre_filter(state, pod, snapshot)
        .map_err(|rejection| FitError::no_fit(all_nodes, Diagnosis::before_filters(rejection)))?;
    // The node that preemption has cleared for this pod comes first.
    if let Some(node) = snapshot.get(pod.nominated_node_name())
        && candidates.names.as_ref().is_none_or(|names| names.contains(node.name()))
        && passes(profile, state, pod, node, nominated).is_ok()
    {
        return Ok((vec![node], 1));
    }
    let nodes: Vec<&Arc<NodeInfo>> = match &candidates.names {
        None => snapshot.nodes().iter().collect(),
        Some(names) => names.iter().filter_map(|name| snapshot.get(name)).collect(),
    };
    let plugins = candidates.restricted_by.iter().copied().collect();
    let mut diagnosis = Diagnosis { others: candidates.exclusion(), plugins, ..Diagnosis::default() };
    let enough = feasible_nodes_to_find(nodes.len());
    let (mut feasible, mut evaluated) = (Vec::new(), 0);
    for offset in 0..nodes.len() {
        let node = nodes[(rotation.next_start + offset) % nodes.len()];
        evaluated += 1;
        match passes(profile, state, pod, node, nominated) {
            Ok(()) => feasible.push(node),
            Err(rejection) => {
                diagnosis.plugins.insert(rejection.plugin);
                diagnosis.rejections.insert(node.name().to_owned(), rejection);
            }
        }
        if feasible.len() >= enough {
            break;
        }
    }
    rotation.next_start = (rotation.next_start + evaluated) % all_nodes;
    if feasible.is_empty() { Err(FitError::no_fit(all_nodes, diagnosis)) } else { Ok((feasible, evaluated)) }
}

/// percentageOfNodesToScore = 0: half of a small cluster, ever less of a larger one.
fn feasible_nodes_to_find(nodes: usize) -> usize {
    if nodes < MIN_FEASIBLE_NODES_TO_FIND {
        return nodes;
    }
    let percentage = 50_usize.saturating_sub(nodes / 125).max(MIN_PERCENTAGE_OF_NODES_TO_FIND);
    (nodes * percentage / 100).max(MIN_FEASIBLE_NODES_TO_FIND)
}

/// Whether the pod fits on the node, with the pods that are promised the node and without them: they may or may not
/// come. The node may be one that is only imagined, if `state` has been told.
pub fn passes(
    profile: &Profile,
    state: &CycleState,
    pod: &PodInfo,
    node: &NodeInfo,
    nominated: &Nominated,
) -> Result<(), Rejection> {
    let mut ahead = nominated.ahead_of(pod, node.name()).peekable();
    if ahead.peek().is_some() {
        let (mut imagined_state, mut imagined) = (state.clone(), node.clone());
        for other in ahead {
            imagined.add_pod(other.clone());
            profile.run_add_pod(&mut imagined_state, pod, other, &imagined);
        }
        profile.run_filter(&imagined_state, pod, &imagined)?;
    }
    profile.run_filter(state, pod, node)
}

/// The node with the most points; of several, each with the same chance.
fn select_host(nodes: usize, scores: &[PluginScores], random: &Random) -> usize {
    let (mut best, mut most, mut equals) = (0, i64::MIN, 0);
    for node in 0..nodes {
        let total: i64 = scores.iter().map(|plugin| plugin.weight * plugin.scores[node]).sum();
        if total > most {
            (best, most, equals) = (node, total, 1);
        } else if total == most {
            equals += 1;
            if random.below(equals) == 0 {
                best = node;
            }
        }
    }
    best
}

#[cfg(test)]
mod tests;
