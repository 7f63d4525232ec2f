//! The ResourceClaims of a pod: those that its spec names, and those that are made for it from templates.
//!
//! Corresponds to k8s.io/dynamic-resource-allocation/resourceclaim.

use client::{Informer, cached};
use controller_base::controller_ref::is_controlled_by;
use controller_base::pod;
use proto::Kind;
use proto::kinds::api::core::v1::{Pod, PodResourceClaim};
use proto::kinds::api::resource::v1::{AllocationResult, ResourceClaim, ResourceClaimConsumerReference};

/// Pods by the keys of the claims that they use.
pub const PODS_BY_CLAIM: &str = "pod-resource-claim-index";

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

/// Returns the name of the claim that the scheduler made for the pod's extended resources.
fn extended_claim(pod: &Pod) -> Option<&str> {
    let made = pod.status.as_ref()?.extended_resource_claim_status.as_ref()?;
    Some(&made.resource_claim_name)
}

/// Returns true if the pod uses, or is to use, any claim.
pub fn has_claims(pod: &Pod) -> bool {
    entries(pod).next().is_some() || extended_claim(pod).is_some()
}

/// Returns the keys of the pod's claims, as far as their names are known.
pub fn claim_keys(pod: &Pod) -> Vec<String> {
    let named = entries(pod).filter_map(|entry| match claim_name(pod, entry) {
        ClaimName::Shared(name) | ClaimName::Own(name) => Some(name),
        ClaimName::NotNeeded | ClaimName::NotMade => None,
    });
    named.chain(extended_claim(pod)).map(|name| cached::key(pod.namespace(), name)).collect()
}

pub fn index(pods: &Informer<Pod>) {
    pods.index(PODS_BY_CLAIM, claim_keys);
}

/// Returns true if none of the pod's containers runs or will ever run, so that it needs no devices.
pub fn is_done(pod: &Pod) -> bool {
    pod::is_terminal(pod) || (pod.is_deleting() && pod::node_name(pod).is_empty())
}

/// Returns true if the claim was made for this pod.
pub fn is_for_pod(claim: &ResourceClaim, pod: &Pod) -> bool {
    claim.namespace() == pod.namespace() && is_controlled_by(claim, pod.uid())
}

pub fn allocation(claim: &ResourceClaim) -> Option<&AllocationResult> {
    claim.status.as_ref()?.allocation.as_ref()
}

pub fn consumers(claim: &ResourceClaim) -> &[ResourceClaimConsumerReference] {
    claim.status.as_ref().and_then(|status| status.reserved_for.as_deref()).unwrap_or_default()
}

/// Returns true if a consumer of a claim is a pod.
pub fn is_pod(consumer: &ResourceClaimConsumerReference) -> bool {
    consumer.api_group.as_deref().unwrap_or_default().is_empty() && consumer.resource == "pods"
}

pub fn is_reserved_for(claim: &ResourceClaim, pod: &Pod) -> bool {
    consumers(claim).iter().any(|consumer| consumer.uid == pod.uid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{entry, own_entry, pod_with, with_status};

    #[test]
    fn a_claim_is_named_by_the_spec_or_by_the_status() {
        let mut pod = pod_with(vec![
            entry("shared", "one"),
            own_entry("own", "t"),
            own_entry("none", "t"),
            own_entry("new", "t"),
        ]);
        with_status(&mut pod, "own", Some("web-own-abcde"));
        with_status(&mut pod, "none", None);
        let names: Vec<ClaimName<'_>> = entries(&pod).map(|entry| claim_name(&pod, entry)).collect();
        let expected =
            [ClaimName::Shared("one"), ClaimName::Own("web-own-abcde"), ClaimName::NotNeeded, ClaimName::NotMade];
        assert_eq!(names, expected);
        assert_eq!(claim_keys(&pod), ["default/one", "default/web-own-abcde"]);
    }
}
