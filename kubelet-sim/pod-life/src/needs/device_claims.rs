//! The ResourceClaims of a pod: the devices of each have to be prepared before the pod's sandbox is made.
//!
//! Corresponds to PrepareResources of pkg/kubelet/cm/dra and to k8s.io/dynamic-resource-allocation/resourceclaim.
//!
//! Deviation: a simulated driver prepares every allocated device at once, and a container sees nothing of its devices.

use proto::Kind;
use proto::kinds::api::core::v1::{Pod, PodStatus};
use proto::kinds::api::resource::v1::ResourceClaim;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Reason of the event about devices that could not be prepared.
pub const FAILED: &str = "FailedPrepareDynamicResources";

/// What was read of the ResourceClaims of a pod, by name; an error is worded as the API server says it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceClaims {
    pub read: BTreeMap<String, Result<Arc<ResourceClaim>, String>>,
    /// The drivers that run on the node.
    pub drivers: BTreeSet<String>,
}

/// A ResourceClaim of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClaimRef {
    name: String,
    /// True for a claim that is made for the pod from a template.
    is_own: bool,
}

/// Returns the names of the ResourceClaims of a pod, as far as they are known.
pub fn names(pod: &Pod, status: &PodStatus) -> Vec<String> {
    refs(pod, status).into_iter().flatten().map(|claim| claim.name).collect()
}

/// Returns the claims of a pod in order; an error for one that is not made yet.
fn refs(pod: &Pod, status: &PodStatus) -> Vec<Result<ClaimRef, String>> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let made = |name: &str| status.resource_claim_statuses.iter().flatten().find(|made| made.name == name);
    let of_spec = spec.resource_claims.iter().flatten().filter_map(|claim| match &claim.resource_claim_name {
        Some(name) => Some(Ok(ClaimRef { name: name.clone(), is_own: false })),
        None => match made(&claim.name) {
            // A template may turn out to need no claim.
            Some(made) => made.resource_claim_name.clone().map(|name| Ok(ClaimRef { name, is_own: true })),
            None => {
                let pod = format!("{}/{}", pod.namespace(), pod.name());
                Some(Err(format!("pod {pod:?}: ResourceClaim not created yet")))
            }
        },
    });
    let extended = status.extended_resource_claim_status.as_ref();
    let of_resources = extended.map(|made| Ok(ClaimRef { name: made.resource_claim_name.clone(), is_own: true }));
    of_spec.chain(of_resources).collect()
}

/// Returns the message of the event about devices that cannot be prepared; `None` when all can be, or there are none.
pub fn message(pod: &Pod, status: &PodStatus, claims: &DeviceClaims) -> Option<String> {
    let error =
        refs(pod, status).into_iter().find_map(|claim| claim.and_then(|claim| check(pod, &claim, claims)).err())?;
    Some(format!("Failed to prepare dynamic resources: prepare dynamic resources: {error}"))
}

fn check(pod: &Pod, claim: &ClaimRef, claims: &DeviceClaims) -> Result<(), String> {
    let name = &claim.name;
    let object = match claims.read.get(name) {
        Some(Ok(object)) => object,
        Some(Err(error)) => return Err(format!("fetch ResourceClaim {name}: {error}")),
        None => return Err(format!("fetch ResourceClaim {name}: it has not been read")),
    };
    let owners = object.metadata.owner_references.iter().flatten();
    if claim.is_own && !owners.into_iter().any(|owner| owner.controller == Some(true) && owner.uid == pod.uid()) {
        let (namespace, pod) = (pod.namespace(), pod.name());
        return Err(format!(
            "ResourceClaim {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)"
        ));
    }
    let status = object.status.clone().unwrap_or_default();
    if !status.reserved_for.iter().flatten().any(|consumer| consumer.uid == pod.uid()) {
        let (pod, uid) = (pod.name(), pod.uid());
        return Err(format!("pod {pod} ({uid}) is not allowed to use ResourceClaim {name} ({})", object.uid()));
    }
    let Some(allocation) = status.allocation else { return Err(format!("ResourceClaim {name}: not allocated")) };
    let results = allocation.devices.and_then(|devices| devices.results).unwrap_or_default();
    match results.iter().find(|result| !claims.drivers.contains(&result.driver)) {
        Some(result) => Err(format!("DRA driver {} is not registered", result.driver)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(claim: Value, status: Value) -> Pod {
        Pod::decode_value(json!({
            "metadata": {"name": "train", "namespace": "lab", "uid": "u1"},
            "spec": {"resourceClaims": [claim], "containers": []},
            "status": status,
        }))
        .unwrap()
    }

    fn told(pod: &Pod, read: Value) -> String {
        let read = match read.as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(Arc::new(ResourceClaim::decode_value(read).unwrap())),
        };
        let claims =
            DeviceClaims { read: [("gpu".to_owned(), read)].into(), drivers: ["gpu.example.com".to_owned()].into() };
        let told = message(pod, pod.status.as_ref().unwrap(), &claims).unwrap_or_default();
        told.trim_start_matches("Failed to prepare dynamic resources: prepare dynamic resources: ").to_owned()
    }

    fn claim(reserved_for: &str, driver: Option<&str>) -> Value {
        let allocation = driver.map(|driver| {
            json!({"devices": {"results": [{"request": "r", "driver": driver, "pool": "n", "device": "gpu-0"}]}})
        });
        let consumer = json!({"resource": "pods", "name": "train", "uid": reserved_for});
        json!({
            "metadata": {"name": "gpu", "namespace": "lab", "uid": "c1"},
            "spec": {},
            "status": {"allocation": allocation, "reservedFor": [consumer]},
        })
    }

    #[test]
    fn a_claim_has_to_be_allocated_and_reserved_for_the_pod() {
        let pod = pod(json!({"name": "gpu", "resourceClaimName": "gpu"}), json!({}));
        let missing = "resourceclaims.resource.k8s.io \"gpu\" not found";
        assert_eq!(told(&pod, json!(missing)), format!("fetch ResourceClaim gpu: {missing}"));
        let not_allowed = "pod train (u1) is not allowed to use ResourceClaim gpu (c1)";
        assert_eq!(told(&pod, claim("u2", Some("gpu.example.com"))), not_allowed);
        assert_eq!(told(&pod, claim("u1", None)), "ResourceClaim gpu: not allocated");
        let other = claim("u1", Some("nic.example.com"));
        assert_eq!(told(&pod, other), "DRA driver nic.example.com is not registered");
        assert_eq!(told(&pod, claim("u1", Some("gpu.example.com"))), "");
    }

    #[test]
    fn a_claim_of_a_template_is_made_for_its_pod() {
        let template = json!({"name": "gpu", "resourceClaimTemplateName": "gpus"});
        let early = pod(template.clone(), json!({}));
        assert_eq!(told(&early, json!("")), "pod \"lab/train\": ResourceClaim not created yet");
        let made = |name: Value| json!({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": name}]});
        let none = pod(template.clone(), made(Value::Null));
        assert_eq!((told(&none, json!("")), names(&none, none.status.as_ref().unwrap())), (String::new(), vec![]));
        let pod = pod(template, made(json!("gpu")));
        let mut claim = claim("u1", Some("gpu.example.com"));
        assert_eq!(
            told(&pod, claim.clone()),
            "ResourceClaim lab/gpu was not created for pod lab/train (pod is not owner)"
        );
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "u1", "controller": true});
        claim["metadata"]["ownerReferences"] = json!([owner]);
        assert_eq!(told(&pod, claim), "");
    }
}
