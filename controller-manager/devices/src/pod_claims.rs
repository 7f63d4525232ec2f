//! The ResourceClaims of a pod: those that its spec names, and those that are made for it from templates.
//!
//! Corresponds to k8s.io/dynamic-resource-allocation/resourceclaim.

pub use component_helpers::device_claims::*;

use client::{Informer, cached};
use controller_base::pod;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::api::resource::v1::ResourceClaimConsumerReference;

/// Pods by the keys of the claims that they use.
pub const PODS_BY_CLAIM: &str = "pod-resource-claim-index";

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

/// Returns true if a consumer of a claim is a pod.
pub fn is_pod(consumer: &ResourceClaimConsumerReference) -> bool {
    consumer.api_group.as_deref().unwrap_or_default().is_empty() && consumer.resource == "pods"
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
