//! `PodClaims`: the claims of a pod in one scheduling cycle, and what the cycle finds for them.
//!
//! Corresponds to stateData and foreachPodResourceClaim in
//! pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go.

use super::binding_conditions;
use super::extended::{DeviceClasses, ExtendedClaim, ExtendedResources};
use super::tracked_claims::TrackedClaims;
use component_helpers::device_claims::{
    ClaimName, MAX_CONSUMERS, allocation, claim_name, consumers, entries, is_for_pod, is_reserved_for,
};
use device_allocation::{Allocator, alternatives};
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, NodeSelector, Pod};
use proto::kinds::api::resource::v1::{AllocationResult, DeviceClass, ResourceClaim};
use proto::kinds::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One claim of the pod.
#[derive(Clone)]
pub struct PodClaim {
    pub claim: Arc<ResourceClaim>,
    /// The allocation that Reserve has chosen.
    pub chosen: Option<AllocationResult>,
    /// True if a driver cannot make its devices ready for the pod.
    pub is_stuck: bool,
}

impl PodClaim {
    pub fn is_allocated(&self) -> bool {
        allocation(&self.claim).is_some()
    }

    /// Returns the nodes that have the claim's devices.
    pub fn nodes(&self) -> Option<&NodeSelector> {
        allocation(&self.claim)?.node_selector.as_ref()
    }
}

/// What Filter finds on one node.
#[derive(Clone, Debug)]
pub struct NodeAllocation {
    /// The claim for the pod's extended resources.
    pub extended: Option<ExtendedClaim>,
    /// Allocations of the pending claims, and then of `extended`.
    pub allocations: Arc<[AllocationResult]>,
}

/// What Filter finds on the nodes, and PreBind writes. Copies of the cycle's state share it.
#[derive(Default)]
pub struct Findings {
    /// By the addresses of the nodes, which stay as long as a cycle.
    allocations: BTreeMap<usize, (Arc<Node>, NodeAllocation)>,
    /// Numbers of allocated claims that keep the pod from a node.
    pub unavailable: BTreeSet<usize>,
    /// Claims as PreBind has written them, by number.
    pub written: BTreeMap<usize, Arc<ResourceClaim>>,
    /// The claim for extended resources, as the server has it.
    pub extended: Option<Arc<ResourceClaim>>,
}

fn address(node: &Arc<Node>) -> usize {
    Arc::as_ptr(node).addr()
}

impl Findings {
    pub fn of_node(&self, node: &Arc<Node>) -> Option<&NodeAllocation> {
        self.allocations.get(&address(node)).map(|(_, found)| found)
    }

    pub fn add(&mut self, node: &Arc<Node>, found: NodeAllocation) {
        self.allocations.insert(address(node), (node.clone(), found));
    }

    /// Returns what was found on the node that is chosen, and forgets all nodes.
    pub fn take_chosen(&mut self, node: &str) -> Option<NodeAllocation> {
        let mut all = std::mem::take(&mut self.allocations).into_values();
        all.find(|(found, _)| found.name() == node).map(|(_, found)| found)
    }
}

#[derive(Clone, Default)]
pub struct PodClaims {
    pub claims: Vec<PodClaim>,
    /// The extended resources that may need a claim.
    pub extended: Option<ExtendedResources>,
    /// The claim for them that Reserve has chosen, with its allocation.
    pub chosen: Option<(ExtendedClaim, AllocationResult)>,
    /// Finds devices for the pending claims; `None` if there are none.
    pub allocator: Option<Arc<Allocator>>,
    pub findings: Arc<Mutex<Findings>>,
}

impl PodClaims {
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.extended.is_none()
    }

    /// Returns the claims that have no devices yet.
    pub fn pending(&self) -> Vec<Arc<ResourceClaim>> {
        self.claims.iter().filter(|claim| !claim.is_allocated()).map(|claim| claim.claim.clone()).collect()
    }

    /// Returns the newest state of each claim.
    pub fn newest(&self) -> Vec<Arc<ResourceClaim>> {
        let written = &self.findings.lock().written;
        let claims = self.claims.iter().enumerate();
        claims.map(|(number, claim)| written.get(&number).unwrap_or(&claim.claim).clone()).collect()
    }
}

/// Returns the claims that a pod names, or the reason why it cannot use one of them.
pub fn named(tracked: &TrackedClaims, pod: &Pod) -> Result<Vec<Arc<ResourceClaim>>, String> {
    let mut claims = Vec::new();
    for entry in entries(pod) {
        let (name, is_own) = match claim_name(pod, entry) {
            ClaimName::Shared(name) => (name, false),
            ClaimName::Own(name) => (name, true),
            ClaimName::NotNeeded => continue,
            ClaimName::NotMade => return Err(format!("pod {:?}: ResourceClaim not created yet", pod.key())),
        };
        let Some(claim) = tracked.get(pod.namespace(), name) else {
            let key = client::cached::key(pod.namespace(), name);
            return Err(format!("could not find ResourceClaim {key:?}: object not found"));
        };
        if claim.is_deleting() {
            return Err(format!("resourceclaim {name:?} is being deleted"));
        }
        if is_own && !is_for_pod(&claim, pod) {
            let (claim, pod) = (claim.key(), pod.key());
            return Err(format!("ResourceClaim {claim} was not created for pod {pod} (pod is not owner)"));
        }
        claims.push(claim);
    }
    Ok(claims)
}

/// Returns, for each claim of a pod that it cannot use, what would give it one.
pub fn missing(tracked: &TrackedClaims, pod: &Pod) -> Vec<String> {
    let missing = |entry| {
        let (name, is_own) = match claim_name(pod, entry) {
            ClaimName::Shared(name) => (name, false),
            ClaimName::Own(name) => (name, true),
            ClaimName::NotNeeded => return None,
            ClaimName::NotMade => {
                return Some("the creation of its ResourceClaim by the resourceclaim-controller".to_owned());
            }
        };
        let key = client::cached::key(pod.namespace(), name);
        match tracked.get(pod.namespace(), name) {
            None => Some(format!("the creation of the ResourceClaim {key}")),
            Some(claim) if claim.is_deleting() => {
                Some(format!("the deletion of the ResourceClaim {key}, and then another one of this name"))
            }
            Some(claim) if is_own && !is_for_pod(&claim, pod) => {
                Some(format!("another ResourceClaim {key}, which is the pod's own"))
            }
            Some(_) => None,
        }
    };
    entries(pod).filter_map(missing).collect()
}

/// Reads the claims of a pod for a cycle, and the classes of those that are pending. The reason is for all nodes.
pub fn read(
    tracked: &TrackedClaims,
    available: &DeviceClasses,
    pod: &Pod,
    oldest: Option<Timestamp>,
) -> Result<(Vec<PodClaim>, BTreeMap<String, Arc<DeviceClass>>), String> {
    let (mut claims, mut classes) = (Vec::new(), BTreeMap::new());
    for claim in named(tracked, pod)? {
        if allocation(&claim).is_some() {
            if consumers(&claim).len() >= MAX_CONSUMERS && !is_reserved_for(&claim, pod) {
                return Err("resourceclaim in use".to_owned());
            }
        } else {
            if tracked.is_in_flight(claim.uid()) {
                return Err(format!("resource claim {} is in the process of being allocated", claim.key()));
            }
            add_classes(&claim, available, &mut classes)?;
        }
        let is_stuck = binding_conditions::is_stuck(&claim, oldest);
        claims.push(PodClaim { claim, chosen: None, is_stuck });
    }
    Ok((claims, classes))
}

fn add_classes(
    claim: &ResourceClaim,
    available: &DeviceClasses,
    classes: &mut BTreeMap<String, Arc<DeviceClass>>,
) -> Result<(), String> {
    for request in claim.spec.devices.iter().flat_map(|devices| devices.requests.iter().flatten()) {
        for one in alternatives(request) {
            let name = one.class_name;
            let Some(found) = available.get(name) else {
                return Err(format!("request {}: device class {name} does not exist", one.full_name()));
            };
            classes.insert(name.to_owned(), found);
        }
    }
    Ok(())
}
