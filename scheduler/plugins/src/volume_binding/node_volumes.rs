//! `NodeVolumes`: the volumes that a pod's claims would get on one node, or the reasons why they would not get any.
//!
//! Corresponds to FindPodVolumes in pkg/scheduler/framework/plugins/volumebinding/binder.go.

use super::pod_claims::{PodClaims, WaitingClaim};
use component_helpers::scheduling::node_selector;
use component_helpers::volumes::annotations::{SELECTED_NODE, annotation};
use component_helpers::volumes::{claims, matching, persistent_volumes};
use proto::Kind;
use proto::kinds::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, TopologySelectorTerm};
use proto::kinds::api::storage::v1::CSIStorageCapacity;
use proto::meta::label_selector;
use proto::meta::quantity::Quantity;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub const NODE_CONFLICT: &str = "node(s) didn't match PersistentVolume's node affinity";
pub const BIND_CONFLICT: &str = "node(s) didn't find available persistent volumes to bind";
pub const NOT_ENOUGH_SPACE: &str = "node(s) did not have enough free storage";
/// Provisioner of classes whose volumes nobody makes.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

#[derive(Clone, Debug, Default)]
pub struct NodeVolumes {
    /// Volumes that are there, and the claims that get them.
    pub bindings: Vec<(Arc<PersistentVolume>, Arc<PersistentVolumeClaim>)>,
    /// Claims for which a provisioner is to make a volume.
    pub provisions: Vec<Arc<PersistentVolumeClaim>>,
    /// Room for those volumes, where the driver tells.
    pub room: Vec<Room>,
}

/// What one claim takes of the storage within reach of a node, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Room {
    pub class: String,
    pub requested_bytes: i64,
    pub capacity_bytes: i64,
}

impl NodeVolumes {
    pub fn is_empty(&self) -> bool {
        self.bindings.is_empty() && self.provisions.is_empty()
    }
}

/// Finds a volume for each claim: the smallest one that fits, or one that can be made.
pub fn find(wanted: &PodClaims, node: &Node) -> Result<NodeVolumes, Vec<&'static str>> {
    let mut reasons = Vec::new();
    if !wanted.bound.iter().all(|volume| is_reachable(volume, node)) {
        reasons.push(NODE_CONFLICT);
    }
    match find_for_waiting(&wanted.waiting, node) {
        Ok(found) if reasons.is_empty() => return Ok(found),
        Ok(_) => {}
        Err(reason) => reasons.push(reason),
    }
    Err(reasons)
}

fn find_for_waiting(waiting: &[WaitingClaim], node: &Node) -> Result<NodeVolumes, &'static str> {
    let mut found = NodeVolumes::default();
    let mut taken = BTreeSet::new();
    for wanted in waiting {
        let selected = annotation(&*wanted.claim, SELECTED_NODE);
        if selected.is_some_and(|selected| selected != node.name()) {
            return Err(BIND_CONFLICT); // its volume is being made for another node
        }
        let volume = if selected.is_none() { match_volume(wanted, node, &taken) } else { None };
        match volume {
            Some(volume) => {
                taken.insert(volume.name().to_owned());
                found.bindings.push((volume.clone(), wanted.claim.clone()));
            }
            None => {
                found.room.extend(can_provision(wanted, node)?);
                found.provisions.push(wanted.claim.clone());
            }
        }
    }
    Ok(found)
}

/// Returns the volume that is reserved for the claim, or else the smallest free one. One that is reserved, but out of the
/// node's reach, leaves no other choice.
fn match_volume<'a>(
    wanted: &'a WaitingClaim,
    node: &Node,
    taken: &BTreeSet<String>,
) -> Option<&'a Arc<PersistentVolume>> {
    let claim = &*wanted.claim;
    let volumes = || wanted.volumes.iter().filter(|volume| !taken.contains(volume.name()));
    if let Some(reserved) = volumes().find(|volume| matching::is_reserved_for(volume, claim)) {
        return Some(reserved).filter(|volume| is_reachable(volume, node));
    }
    volumes()
        .filter(|volume| matching::is_free_for(volume, claim) && is_reachable(volume, node))
        .min_by_key(|volume| (persistent_volumes::capacity(volume), volume.name()))
}

pub fn is_reachable(volume: &PersistentVolume, node: &Node) -> bool {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref()?.required.as_ref());
    affinity.is_none_or(|required| node_selector::selector_matches(required, node))
}

/// Checks whether a volume can be made for the claim within reach of the node. Returns the room for it, if that is known.
fn can_provision(wanted: &WaitingClaim, node: &Node) -> Result<Option<Room>, &'static str> {
    let class = &wanted.class;
    if class.provisioner.is_empty() || class.provisioner == NO_PROVISIONER {
        return Err(BIND_CONFLICT);
    }
    let terms = class.allowed_topologies.as_deref().unwrap_or_default();
    if !terms.is_empty() && !terms.iter().any(|term| is_in_topology(term, node)) {
        return Err(BIND_CONFLICT);
    }
    let size = claims::requested(&wanted.claim);
    let Some(capacities) = &wanted.capacities else { return Ok(None) };
    let found = capacities.iter().find(|capacity| has_room(capacity, &size, node)).ok_or(NOT_ENOUGH_SPACE)?;
    let capacity = found.capacity.as_ref().and_then(|text| Quantity::parse(&text.0).ok());
    let (class, requested_bytes) = (class.name().to_owned(), size.value());
    Ok(capacity.map(|capacity| Room { class, requested_bytes, capacity_bytes: capacity.value() }))
}

fn is_in_topology(term: &TopologySelectorTerm, node: &Node) -> bool {
    let label = |key: &str| node.metadata.labels.as_ref().and_then(|labels| labels.get(key));
    let mut expressions = term.match_label_expressions.iter().flatten();
    expressions.all(|expression| label(&expression.key).is_some_and(|value| expression.values.contains(value)))
}

/// Returns true if the storage that the object describes is within reach of the node and has room for a volume.
fn has_room(capacity: &CSIStorageCapacity, size: &Quantity, node: &Node) -> bool {
    let limit = capacity.maximum_volume_size.as_ref().or(capacity.capacity.as_ref());
    let is_large_enough = limit.and_then(|limit| Quantity::parse(&limit.0).ok()).is_some_and(|limit| limit >= *size);
    let no_labels = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&no_labels);
    is_large_enough
        && capacity.node_topology.is_some()
        && label_selector::from_typed(capacity.node_topology.as_ref()).is_ok_and(|selector| selector.matches(labels))
}
