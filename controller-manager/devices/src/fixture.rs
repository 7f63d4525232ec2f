//! Builds the pods, claims and slices that tests of these controllers use.
//!
//! Corresponds to the make functions of pkg/controller/resourceclaim/controller_test.go.

use controller_base::controller_ref::controller_ref;
use controller_base::fixture;
use proto::Kind;
use proto::kinds::api::core::v1::{Pod, PodResourceClaim, PodResourceClaimStatus};
use proto::kinds::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use serde_json::{Value, json};

/// Returns an entry that names a claim.
pub fn entry(name: &str, claim: &str) -> PodResourceClaim {
    PodResourceClaim {
        name: name.to_owned(),
        resource_claim_name: Some(claim.to_owned()),
        resource_claim_template_name: None,
    }
}

/// Returns an entry that names a template.
pub fn own_entry(name: &str, template: &str) -> PodResourceClaim {
    PodResourceClaim {
        name: name.to_owned(),
        resource_claim_name: None,
        resource_claim_template_name: Some(template.to_owned()),
    }
}

/// Returns the pod `web` with these entries.
pub fn pod_with(entries: Vec<PodResourceClaim>) -> Pod {
    let mut pod = fixture::pod("web");
    pod.spec.get_or_insert_default().resource_claims = Some(entries);
    pod
}

/// Writes the name of a claim that was made into the pod's status.
pub fn with_status(pod: &mut Pod, name: &str, claim: Option<&str>) {
    let made = PodResourceClaimStatus { name: name.to_owned(), resource_claim_name: claim.map(str::to_owned) };
    pod.status.get_or_insert_default().resource_claim_statuses.get_or_insert_default().push(made);
}

pub fn set_node(pod: &mut Pod, node: &str) {
    pod.spec.get_or_insert_default().node_name = Some(node.to_owned());
}

pub fn template(name: &str) -> ResourceClaimTemplate {
    let mut template = ResourceClaimTemplate { metadata: fixture::meta(name), ..ResourceClaimTemplate::default() };
    let labels = Some(fixture::labels(&[("a", "b")]));
    template.spec.metadata.get_or_insert_default().labels = labels;
    template
}

/// Returns a claim that nobody uses.
pub fn claim(name: &str) -> ResourceClaim {
    ResourceClaim { metadata: fixture::meta(name), ..ResourceClaim::default() }
}

/// Returns a claim that was made for an entry of a pod.
pub fn own_claim(name: &str, pod: &Pod, entry: &str) -> ResourceClaim {
    let mut claim = claim(name);
    claim.metadata.owner_references = Some(vec![controller_ref(pod)]);
    fixture::annotate(&mut claim, &[("resource.kubernetes.io/pod-claim-name", entry)]);
    claim
}

/// Allocates the device `gpu-0` of the pool `node-1`, and reserves the claim for pods by their names.
pub fn allocate(claim: &mut ResourceClaim, pods: &[&str]) {
    allocate_as(claim, &json!([]), pods);
}

/// Allocates as `allocate` does, with tolerations.
pub fn allocate_as(claim: &mut ResourceClaim, tolerations: &Value, pods: &[&str]) {
    let mut result = json!({"request": "r", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"});
    result["tolerations"] = tolerations.clone();
    let consumer = |name: &&str| json!({"resource": "pods", "name": name, "uid": format!("uid-{name}")});
    let mut value = claim.encode();
    value["status"] = json!({
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": pods.iter().map(consumer).collect::<Vec<_>>(),
    });
    *claim = ResourceClaim::decode_value(value).expect("a claim");
    claim.metadata.finalizers = Some(vec!["resource.kubernetes.io/delete-protection".to_owned()]);
}
