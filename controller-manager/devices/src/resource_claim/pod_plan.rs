//! Plans the claims of a pod: which are to be made, which the status is to name, and which are to be reserved.
//!
//! Corresponds to syncPod in pkg/controller/resourceclaim/controller.go.
//!
//! ```text
//!   spec: gpu from the template "one"          create the claim web-gpu-*
//!   ... its name is known: web-gpu-x7k2p       the pod's status names it
//!   ... the scheduler, or a user, allocates it
//!   ... the pod is bound without a scheduler   reserve the claim for the pod
//! ```

use crate::pod_claims::{
    ClaimName, MAX_CONSUMERS, allocation, claim_name, consumer, consumers, entries, is_done, is_for_pod,
    is_reserved_for,
};
use client::{Action, Patch, Plan};
use controller_base::controller_ref::controller_ref;
use controller_base::{actions, pod};
use proto::Kind;
use proto::kinds::api::core::v1::{Pod, PodResourceClaim};
use proto::kinds::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use proto::kinds::metav1::ObjectMeta;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Annotation of a claim that was made from a template: the name of the pod's entry.
pub const POD_CLAIM_NAME: &str = "resource.kubernetes.io/pod-claim-name";
/// Reason of the event about a claim that cannot be made.
const FAILED: &str = "FailedResourceClaimCreation";
/// Manager of the fields that this controller writes in the status of pods.
const FIELD_MANAGER: &str = "ResourceClaimController";
/// The most characters of a name before the generated ones: 63 less five characters and a dash.
const MAX_BASE: usize = 57;

#[derive(Clone, Debug)]
pub struct Observed {
    pub pod: Arc<Pod>,
    /// The claims that the pod names or controls, by name.
    pub claims: BTreeMap<String, Arc<ResourceClaim>>,
    /// The templates that the pod names, by name.
    pub templates: BTreeMap<String, Arc<ResourceClaimTemplate>>,
}

impl Observed {
    /// Returns the entry's claim if it is there and the pod may use it.
    fn usable(&self, entry: &PodResourceClaim) -> Option<&ResourceClaim> {
        match claim_name(&self.pod, entry) {
            ClaimName::Shared(name) => self.claims.get(name).map(|claim| &**claim),
            ClaimName::Own(name) => {
                self.claims.get(name).map(|claim| &**claim).filter(|claim| is_for_pod(claim, &self.pod))
            }
            ClaimName::NotNeeded | ClaimName::NotMade => None,
        }
    }

    /// Returns the claim that was made for the entry, although the pod's status does not name it.
    fn made(&self, entry: &PodResourceClaim) -> Option<&ResourceClaim> {
        let of_entry = |claim: &&Arc<ResourceClaim>| {
            let name = claim.metadata.annotations.as_ref().and_then(|all| all.get(POD_CLAIM_NAME));
            is_for_pod(claim, &self.pod) && name == Some(&entry.name)
        };
        self.claims.values().find(of_entry).map(|claim| &**claim)
    }
}

pub fn plan(observed: &Observed) -> Plan {
    let pod = &*observed.pod;
    if pod.is_deleting() || is_done(pod) {
        return Plan::default();
    }
    let mut plan = Plan::default();
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let mut rest = Vec::new();
    for entry in entries(pod) {
        let Some(template) = &entry.resource_claim_template_name else { continue };
        if claim_name(pod, entry) == ClaimName::NotNeeded || observed.usable(entry).is_some() {
            continue;
        }
        match (observed.made(entry), observed.templates.get(template)) {
            (Some(claim), _) => drop(names.insert(&entry.name, claim.name())),
            (None, Some(template)) => rest.push(Action::create(&claim_of(pod, entry, template))),
            (None, None) => {
                let missing = format!(
                    "resource claim template {template:?}: resourceclaimtemplate.resource.k8s.io {template:?} not found"
                );
                rest.push(failure(pod, &entry.name, &missing));
            }
        }
    }
    if !names.is_empty() {
        plan.push(name_in_status(pod, &names));
    }
    plan.actions.extend(rest);
    plan.actions.extend(reservations(observed));
    plan
}

/// Plans the event that says why a claim of the pod cannot be made.
pub fn failure(pod: &Pod, entry: &str, error: &str) -> Action {
    actions::warning(pod, FAILED, format!("PodResourceClaim {entry}: {error}"))
}

/// Applies the whole list: a manager that left out a name would give it up.
fn name_in_status(pod: &Pod, new: &BTreeMap<&str, &str>) -> Action {
    let status = |entry: &PodResourceClaim| -> Option<Value> {
        if let Some(name) = new.get(entry.name.as_str()) {
            return Some(json!({"name": entry.name, "resourceClaimName": name}));
        }
        match claim_name(pod, entry) {
            ClaimName::Own(name) => Some(json!({"name": entry.name, "resourceClaimName": name})),
            ClaimName::NotNeeded => Some(json!({"name": entry.name})),
            ClaimName::Shared(_) | ClaimName::NotMade => None,
        }
    };
    let statuses: Vec<Value> = entries(pod).filter_map(status).collect();
    let value = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": pod.name(), "namespace": pod.namespace(), "uid": pod.uid()},
        "status": {"resourceClaimStatuses": statuses},
    });
    let patch = Patch::Apply { value, manager: FIELD_MANAGER.to_owned(), force: true };
    Action::patch_status::<Pod>(pod.namespace(), pod.name(), patch)
}

/// Makes the claim of an entry from its template.
fn claim_of(pod: &Pod, entry: &PodResourceClaim, template: &ResourceClaimTemplate) -> ResourceClaim {
    let described = template.spec.metadata.clone().unwrap_or_default();
    let mut annotations = described.annotations.unwrap_or_default();
    annotations.insert(POD_CLAIM_NAME.to_owned(), entry.name.clone());
    let metadata = ObjectMeta {
        generate_name: Some(generate_name(pod.name(), &entry.name)),
        namespace: Some(pod.namespace().to_owned()),
        owner_references: Some(vec![controller_ref(pod)]),
        annotations: Some(annotations),
        labels: described.labels,
        ..ObjectMeta::default()
    };
    ResourceClaim { metadata, spec: template.spec.spec.clone(), status: None }
}

/// Returns the prefix of the claim's name. If it is too long, both parts are cut, each in proportion to its length.
fn generate_name(pod: &str, entry: &str) -> String {
    let whole = format!("{pod}-{entry}-");
    if whole.len() <= MAX_BASE {
        return whole;
    }
    let cut = |part: &str| part[..part.len() * MAX_BASE / whole.len()].to_owned();
    // A part of a name may not end in a dot, nor the next begin with a dash.
    format!("{}-{}", cut(pod).trim_end_matches(['.', '-']), cut(entry))
}

/// Plans the reservations of a pod that has a node: one that a scheduler bound has them already.
fn reservations(observed: &Observed) -> Vec<Action> {
    let pod = &*observed.pod;
    if pod::node_name(pod).is_empty() {
        return Vec::new();
    }
    let claims = entries(pod).filter_map(|entry| observed.usable(entry));
    let may_reserve = |claim: &&ResourceClaim| {
        let has_room = consumers(claim).len() < MAX_CONSUMERS && !claim.is_deleting();
        allocation(claim).is_some() && !is_reserved_for(claim, pod) && has_room
    };
    let mut by_name: BTreeMap<&str, &ResourceClaim> = BTreeMap::new();
    by_name.extend(claims.filter(may_reserve).map(|claim| (claim.name(), claim)));
    by_name.into_values().map(|claim| reserve(pod, claim)).collect()
}

fn reserve(pod: &Pod, claim: &ResourceClaim) -> Action {
    let mut reserved = claim.clone();
    reserved.status.get_or_insert_default().reserved_for.get_or_insert_default().push(consumer(pod));
    Action::update_status(&reserved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{allocate, claim, entry, own_claim, own_entry, pod_with, set_node, template, with_status};
    use controller_base::fixture::{set_phase, time};

    fn observed(pod: &Pod, claims: Vec<ResourceClaim>, templates: &[&str]) -> Observed {
        Observed {
            pod: Arc::new(pod.clone()),
            claims: claims.into_iter().map(|claim| (claim.name().to_owned(), Arc::new(claim))).collect(),
            templates: templates.iter().map(|name| ((*name).to_owned(), Arc::new(template(name)))).collect(),
        }
    }

    fn planned(pod: &Pod, claims: Vec<ResourceClaim>) -> String {
        plan(&observed(pod, claims, &["t"])).to_string()
    }

    #[test]
    fn a_claim_is_made_from_its_template_and_then_named() {
        let pod = pod_with(vec![own_entry("gpu", "t"), own_entry("nic", "t")]);
        let made = plan(&observed(&pod, vec![], &["t"]));
        assert_eq!(
            made.to_string(),
            "create resourceclaims.resource.k8s.io default/web-gpu-*\ncreate resourceclaims.resource.k8s.io default/web-nic-*\n"
        );
        let Action::Create { object, .. } = &made.actions[0] else { panic!("{made}") };
        let metadata = json!({
            "generateName": "web-gpu-", "namespace": "default", "labels": {"a": "b"},
            "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-web", "controller": true, "blockOwnerDeletion": true
            }],
        });
        assert_eq!(object["metadata"], metadata);
        // One is there: its name is written at once, without waiting for the other.
        let named = planned(&pod, vec![own_claim("web-gpu-abcde", &pod, "gpu")]);
        assert_eq!(
            named,
            "apply patch pods/status default/web {\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"web\",\"namespace\":\
             \"default\",\"uid\":\"uid-web\"},\"status\":{\"resourceClaimStatuses\":[{\"name\":\"gpu\",\"resourceClaimName\":\
             \"web-gpu-abcde\"}]}}\ncreate resourceclaims.resource.k8s.io default/web-nic-*\n"
        );
    }

    #[test]
    fn what_a_pod_has_is_not_made_again() {
        let mut pod = pod_with(vec![own_entry("gpu", "t"), entry("nic", "one")]);
        with_status(&mut pod, "gpu", Some("web-gpu-abcde"));
        let own = own_claim("web-gpu-abcde", &pod, "gpu");
        assert_eq!(planned(&pod, vec![own.clone()]), "", "a claim that a user has to make is not waited for");
        // Deleted by somebody, or replaced by the claim of somebody else.
        let made = "create resourceclaims.resource.k8s.io default/web-gpu-*\n";
        assert_eq!(planned(&pod, vec![]), made);
        assert_eq!(planned(&pod, vec![claim("web-gpu-abcde")]), made);
        let other = own_claim("web-gpu-fghij", &pod, "gpu");
        assert!(planned(&pod, vec![other]).contains("{\"name\":\"gpu\",\"resourceClaimName\":\"web-gpu-fghij\"}"));
        // The status says that this pod needs none.
        let mut none = pod_with(vec![own_entry("gpu", "t")]);
        with_status(&mut none, "gpu", None);
        assert_eq!(planned(&none, vec![]), "");
        let fresh = pod_with(vec![own_entry("gpu", "t")]);
        for end in ["Succeeded", "Failed", "deleted"] {
            let mut ended = fresh.clone();
            match end {
                "deleted" => ended.metadata.deletion_timestamp = Some(time(5)),
                phase => set_phase(&mut ended, phase),
            }
            assert_eq!(planned(&ended, vec![]), "", "{end}");
        }
    }

    #[test]
    fn a_missing_template_is_said_and_the_other_claims_are_made() {
        let pod = pod_with(vec![own_entry("gpu", "absent"), own_entry("nic", "t")]);
        assert_eq!(
            planned(&pod, vec![]),
            "event Warning FailedResourceClaimCreation Pod default/web: PodResourceClaim gpu: resource claim template \"absent\": \
             resourceclaimtemplate.resource.k8s.io \"absent\" not found\ncreate resourceclaims.resource.k8s.io default/web-nic-*\n"
        );
    }

    #[test]
    fn an_allocated_claim_is_reserved_for_a_pod_with_a_node() {
        let mut pod = pod_with(vec![entry("gpu", "one"), entry("again", "one")]);
        let mut one = claim("one");
        set_node(&mut pod, "node-1");
        assert_eq!(planned(&pod, vec![one.clone()]), "", "nothing is allocated");
        allocate(&mut one, &["other"]);
        let reserved = planned(&pod, vec![one.clone()]);
        assert!(reserved.starts_with("update resourceclaims.resource.k8s.io/status default/one "), "{reserved}");
        assert!(reserved.contains("{\"name\":\"web\",\"resource\":\"pods\",\"uid\":\"uid-web\"}"), "{reserved}");
        assert_eq!(reserved.lines().count(), 1);
        let mut unbound = pod.clone();
        set_node(&mut unbound, "");
        assert_eq!(planned(&unbound, vec![one.clone()]), "", "the scheduler reserves");
        let mut deleting = one.clone();
        deleting.metadata.deletion_timestamp = Some(time(5));
        assert_eq!(planned(&pod, vec![deleting]), "");
        let mut full = one.clone();
        let consumer = consumers(&one)[0].clone();
        full.status.get_or_insert_default().reserved_for = Some(vec![consumer; MAX_CONSUMERS]);
        assert_eq!(planned(&pod, vec![full]), "");
        allocate(&mut one, &["other", "web"]);
        assert_eq!(planned(&pod, vec![one]), "");
    }

    #[test]
    fn long_names_are_cut_in_proportion() {
        assert_eq!(generate_name("web", "gpu"), "web-gpu-");
        let cut = generate_name(&"p".repeat(200), &"c".repeat(50));
        assert_eq!(cut, format!("{}-{}", "p".repeat(45), "c".repeat(11)));
        let dotted = generate_name(&format!("{}.{}", "p".repeat(44), "q".repeat(155)), &"c".repeat(50));
        assert_eq!(dotted, format!("{}-{}", "p".repeat(44), "c".repeat(11)));
    }
}
