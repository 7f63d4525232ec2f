//! The ResourceClaims of a pod, and what is known of a claim: its allocation and its consumers.
//!
//! Corresponds to k8s.io/dynamic-resource-allocation/resourceclaim.

use proto::Kind;
use proto::kinds::api::core::v1::{Pod, PodResourceClaim};
use proto::kinds::api::resource::v1::{
    AllocationResult, DeviceRequestAllocationResult, ResourceClaim, ResourceClaimConsumerReference,
};

/// Finalizer of a claim that is allocated.
pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// The most consumers of a claim, as the API server allows.
pub const MAX_CONSUMERS: usize = 256;

/// The claim behind an entry of a pod's `spec.resourceClaims`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimName<'a> {
    /// The pod names a claim, which other pods may use too.
    Shared(&'a str),
    /// The status names the claim that was made for the pod from a template.
    Own(&'a str),
    /// The status says that the pod needs no claim for this entry.
    NotNeeded,
    NotMade,
}

/// Returns the entries of the pod's `spec.resourceClaims`.
pub fn entries(pod: &Pod) -> impl Iterator<Item = &PodResourceClaim> {
    pod.spec.iter().flat_map(|spec| spec.resource_claims.iter().flatten())
}

pub fn claim_name<'a>(pod: &'a Pod, entry: &'a PodResourceClaim) -> ClaimName<'a> {
    if let Some(name) = &entry.resource_claim_name {
        return ClaimName::Shared(name);
    }
    let mut made = pod.status.iter().flat_map(|status| status.resource_claim_statuses.iter().flatten());
    match made.find(|made| made.name == entry.name) {
        Some(made) => made.resource_claim_name.as_deref().map_or(ClaimName::NotNeeded, ClaimName::Own),
        None => ClaimName::NotMade,
    }
}

/// Returns true if the claim was made for this pod.
pub fn is_for_pod(claim: &ResourceClaim, pod: &Pod) -> bool {
    let mut owners = claim.metadata.owner_references.iter().flatten();
    let controller = owners.find(|owner| owner.controller == Some(true));
    claim.namespace() == pod.namespace() && controller.is_some_and(|owner| owner.uid == pod.uid())
}

pub fn allocation(claim: &ResourceClaim) -> Option<&AllocationResult> {
    claim.status.as_ref()?.allocation.as_ref()
}

/// Returns the devices that are allocated to the claim.
pub fn devices(claim: &ResourceClaim) -> impl Iterator<Item = &DeviceRequestAllocationResult> {
    let devices = allocation(claim).and_then(|allocation| allocation.devices.as_ref());
    devices.into_iter().flat_map(|devices| devices.results.iter().flatten())
}

pub fn consumers(claim: &ResourceClaim) -> &[ResourceClaimConsumerReference] {
    claim.status.as_ref().and_then(|status| status.reserved_for.as_deref()).unwrap_or_default()
}

pub fn is_reserved_for(claim: &ResourceClaim, pod: &Pod) -> bool {
    consumers(claim).iter().any(|consumer| consumer.uid == pod.uid())
}

/// Returns the consumer that a pod is.
pub fn consumer(pod: &Pod) -> ResourceClaimConsumerReference {
    ResourceClaimConsumerReference {
        api_group: None,
        resource: "pods".to_owned(),
        name: pod.name().to_owned(),
        uid: pod.uid().to_owned(),
    }
}

pub fn has_finalizer(claim: &ResourceClaim) -> bool {
    claim.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}
