//! Finds the objects that have not converged: their status does not match their spec, or they depend on missing
//! objects.

mod attachments;
mod autoscalers;
mod daemons;
mod limits;
mod service_cidrs;
mod devices;
mod gangs;
pub mod cloud;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use storage::Entry;

/// An object that has not converged, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unconverged {
    pub key: String,
    pub why: String,
}

impl fmt::Display for Unconverged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key, self.why)
    }
}

/// The content of the store, indexed. It is kept between two checks, so that each revision is parsed once.
#[derive(Default)]
pub struct Objects {
    revisions: BTreeMap<String, u64>,
    by_key: BTreeMap<String, Value>,
    uids: BTreeSet<String>,
    /// Pods by the UID of their controller.
    pods_of: BTreeMap<String, Vec<String>>,
}

/// Returns all objects that have not converged.
pub fn unconverged(objects: &Objects, now: Timestamp) -> Vec<Unconverged> {
    let mut found = Vec::new();
    for (key, object) in &objects.by_key {
        let mut reasons = Vec::new();
        let kind = key.split('/').nth(2).unwrap_or_default();
        // A ServiceCIDR that is being deleted may have to wait for ever.
        if kind != "servicecidrs" {
            any(object, objects, &mut reasons);
        }
        match kind {
            "pods" => {
                pod(object, objects, &mut reasons);
                attachments::pod(object, objects, &mut reasons);
            }
            "volumeattachments" => attachments::attachment(object, objects, &mut reasons),
            "horizontalpodautoscalers" => autoscalers::check(object, objects, &mut reasons),
            "minions" => node(object, &mut reasons),
            "deployments" => deployment(object, &mut reasons),
            "replicasets" => replica_set(object, objects, &mut reasons),
            "statefulsets" => stateful_set(object, objects, &mut reasons),
            "daemonsets" => daemons::check(object, objects, &mut reasons),
            "jobs" => job(object, &mut reasons),
            "podgroups" => gangs::check(object, objects, &mut reasons),
            "resourceclaims" => devices::claim(object, objects, &mut reasons),
            "resourcequotas" => limits::quota(object, objects, &mut reasons),
            "poddisruptionbudgets" => limits::budget(object, objects, &mut reasons),
            "persistentvolumes" => volume(object, objects, &mut reasons),
            "persistentvolumeclaims" => claim(object, objects, &mut reasons),
            "services" if key.starts_with("/registry/services/specs/") => {
                service(key, object, objects, &mut reasons);
                service_cidrs::service(object, objects, &mut reasons);
            }
            "servicecidrs" => service_cidrs::check(object, objects, &mut reasons),
            "leases" => lease(object, now, &mut reasons),
            "namespaces" => namespace(object, objects, &mut reasons),
            "ipaddresses" => cluster_ip(object, objects, &mut reasons),
            "ranges" => node_port(key, object, objects, &mut reasons),
            _ => {}
        }
        found.extend(reasons.into_iter().map(|why| Unconverged { key: key.clone(), why }));
    }
    found
}

impl Objects {
    /// Replaces the content by the present one.
    pub fn update(&mut self, entries: &[Entry]) {
        let mut before = std::mem::take(self);
        for entry in entries {
            let key = entry.key.to_string();
            let known = before.by_key.remove(&key).filter(|_| before.revisions[&key] == entry.mod_revision);
            let Some(object) = known.or_else(|| serde_json::from_slice(&entry.value).ok()) else { continue };
            self.uids.insert(text(&object, "/metadata/uid").to_owned());
            if key.starts_with("/registry/pods/") {
                for owner in items(&object, "/metadata/ownerReferences").iter().filter(|o| o["controller"] == true) {
                    self.pods_of.entry(text(owner, "/uid").to_owned()).or_default().push(key.clone());
                }
            }
            self.revisions.insert(key.clone(), entry.mod_revision);
            self.by_key.insert(key, object);
        }
    }

    /// Returns the pods that an object controls.
    fn pods_of(&self, owner: &Value) -> impl Iterator<Item = &Value> {
        let keys = self.pods_of.get(text(owner, "/metadata/uid"));
        keys.into_iter().flatten().filter_map(|key| self.by_key.get(key))
    }

    /// Returns the Service that an object refers to by `namespace` and `name`.
    fn service_of(&self, holder: &Value) -> Option<&Value> {
        let (namespace, name) = (text(holder, "/namespace"), text(holder, "/name"));
        self.by_key.get(&format!("/registry/services/specs/{namespace}/{name}"))
    }

    /// Returns the objects whose keys have a prefix.
    fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Value> {
        let from = self.by_key.range(prefix.to_owned()..);
        from.take_while(move |(key, _)| key.starts_with(prefix)).map(|(_, object)| object)
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn has_condition(object: &Value, kind: &str) -> bool {
    items(object, "/status/conditions").iter().any(|c| c["type"] == kind && c["status"] == "True")
}

fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Checks that an object is not being deleted, and that its owners exist.
fn any(object: &Value, objects: &Objects, reasons: &mut Vec<String>) {
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        reasons.push("is being deleted".to_owned());
    }
    for owner in items(object, "/metadata/ownerReferences") {
        if !objects.uids.contains(text(owner, "/uid")) {
            reasons.push(format!("is owned by {} {}, which is gone", text(owner, "/kind"), text(owner, "/name")));
        }
    }
}

fn pod(pod: &Value, objects: &Objects, reasons: &mut Vec<String>) {
    if has_ended(pod) || gangs::waits_for_members(pod, objects) {
        return;
    }
    if text(pod, "/spec/nodeName").is_empty() {
        reasons.push("has no node".to_owned());
    } else if !has_condition(pod, "Ready") {
        reasons.push(format!("is {} and not ready", text(pod, "/status/phase")));
    }
}

fn node(node: &Value, reasons: &mut Vec<String>) {
    if !has_condition(node, "Ready") {
        reasons.push("is not ready".to_owned());
    }
    for taint in items(node, "/spec/taints") {
        reasons.push(format!("has the taint {}", text(taint, "/key")));
    }
}

/// Checks that the status has observed the present generation, and that each of these counts is the number of replicas.
fn counts(object: &Value, counts: &[&str], reasons: &mut Vec<String>) {
    counts_of(object, number(object, "/spec/replicas"), counts, reasons);
}

/// Checks that the status has observed the present generation, and that each of these counts is `wanted`.
fn counts_of(object: &Value, wanted: i64, counts: &[&str], reasons: &mut Vec<String>) {
    let (generation, observed) = (number(object, "/metadata/generation"), number(object, "/status/observedGeneration"));
    if generation != observed {
        reasons.push(format!("is at generation {generation} and its status at {observed}"));
    }
    for count in counts {
        let is = number(object, &format!("/status/{count}"));
        if is != wanted {
            reasons.push(format!("has {is} {count} of {wanted}"));
        }
    }
}

fn deployment(deployment: &Value, reasons: &mut Vec<String>) {
    counts(deployment, &["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"], reasons);
}

fn replica_set(set: &Value, objects: &Objects, reasons: &mut Vec<String>) {
    counts(set, &["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"], reasons);
    let pods = objects.pods_of.get(text(set, "/metadata/uid")).map_or(0, Vec::len);
    let wanted = number(set, "/spec/replicas");
    if i64::try_from(pods).ok() != Some(wanted) {
        reasons.push(format!("has {pods} pods of {wanted}"));
    }
}

/// Checks that a StatefulSet has the pods of its ordinals, and that those from the partition up are updated.
fn stateful_set(set: &Value, objects: &Objects, reasons: &mut Vec<String>) {
    counts(set, &["replicas", "readyReplicas", "availableReplicas"], reasons);
    let (name, start) = (text(set, "/metadata/name"), number(set, "/spec/ordinals/start"));
    let wanted = number(set, "/spec/replicas");
    let ordinals = start..start + wanted;
    let key = |ordinal| format!("/registry/pods/{}/{name}-{ordinal}", text(set, "/metadata/namespace"));
    let wanted_pods: BTreeSet<String> = ordinals.map(key).collect();
    let pods: BTreeSet<String> =
        objects.pods_of.get(text(set, "/metadata/uid")).into_iter().flatten().cloned().collect();
    if pods != wanted_pods {
        reasons.push(format!("has the pods {pods:?} of {wanted_pods:?}"));
    }
    let partition = number(set, "/spec/updateStrategy/rollingUpdate/partition");
    let updated = number(set, "/status/updatedReplicas");
    let is_rolling = text(set, "/spec/updateStrategy/type") == "RollingUpdate";
    if is_rolling && updated < wanted - partition {
        reasons.push(format!("has {updated} updated pods of {wanted}, with the partition {partition}"));
    }
}

fn job(job: &Value, reasons: &mut Vec<String>) {
    if !has_condition(job, "Complete") && !has_condition(job, "Failed") {
        reasons.push("has not finished".to_owned());
    } else if items(job, "/status/uncountedTerminatedPods/succeeded").len() + number(job, "/status/active") as usize > 0
    {
        reasons.push("has finished and still counts pods".to_owned());
    } else if has_condition(job, "Complete") && number(job, "/status/succeeded") != number(job, "/spec/completions") {
        reasons.push(format!(
            "counts {} of {} completions",
            number(job, "/status/succeeded"),
            number(job, "/spec/completions")
        ));
    }
}

/// Checks that a Service's Endpoints and EndpointSlices have the addresses of its ready pods, and no others.
fn service(key: &str, service: &Value, objects: &Objects, reasons: &mut Vec<String>) {
    let Some(selector) = service.pointer("/spec/selector").and_then(Value::as_object).filter(|s| !s.is_empty()) else {
        return;
    };
    let rest = key.strip_prefix("/registry/services/specs/").unwrap_or_default();
    let Some((namespace, name)) = rest.split_once('/') else { return };
    let pods_prefix = format!("/registry/pods/{namespace}/");
    let selected =
        |pod: &&Value| selector.iter().all(|(label, value)| pod["metadata"]["labels"].get(label) == Some(value));
    let wanted: BTreeSet<&str> = objects
        .below(&pods_prefix)
        .filter(selected)
        .filter(|pod| !has_ended(pod) && has_condition(pod, "Ready"))
        .map(|pod| text(pod, "/status/podIP"))
        .collect();
    let slices_prefix = format!("/registry/endpointslices/{namespace}/");
    let of_service = |slice: &&Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == name;
    let slices = objects.below(&slices_prefix).filter(of_service);
    let ready = slices.flat_map(|slice| items(slice, "/endpoints")).filter(|e| e["conditions"]["ready"] == true);
    let in_slices: BTreeSet<&str> = ready.flat_map(|e| items(e, "/addresses")).filter_map(Value::as_str).collect();
    if in_slices != wanted {
        reasons.push(format!("has the ready pods {wanted:?}, and in its slices are {in_slices:?}"));
    }
    let endpoints = objects.by_key.get(&format!("/registry/services/endpoints/{rest}")).unwrap_or(&Value::Null);
    let addresses = items(endpoints, "/subsets").iter().flat_map(|subset| items(subset, "/addresses"));
    let in_endpoints: BTreeSet<&str> = addresses.map(|address| text(address, "/ip")).collect();
    if in_endpoints != wanted {
        reasons.push(format!("has the ready pods {wanted:?}, and in its Endpoints are {in_endpoints:?}"));
    }
}

/// Checks that the Service of an allocated cluster IP has that address.
fn cluster_ip(address: &Value, objects: &Objects, reasons: &mut Vec<String>) {
    let holder = &address["spec"]["parentRef"];
    let has = |service: &Value| items(service, "/spec/clusterIPs").contains(&address["metadata"]["name"]);
    if !objects.service_of(holder).is_some_and(has) {
        reasons.push(format!("is kept for {holder}"));
    }
}

/// Checks that the Service of an allocated node port has that port.
fn node_port(key: &str, holder: &Value, objects: &Objects, reasons: &mut Vec<String>) {
    let port = key.strip_prefix("/registry/ranges/servicenodeports/").and_then(|port| port.parse::<i64>().ok());
    let Some(port) = port else { return };
    let has = |service: &Value| {
        number(service, "/spec/healthCheckNodePort") == port
            || items(service, "/spec/ports").iter().any(|p| number(p, "/nodePort") == port)
    };
    if !objects.service_of(holder).is_some_and(has) {
        reasons.push(format!("is kept for {holder}"));
    }
}

/// Checks that a Lease was renewed less than half of its duration ago. Holders renew after a quarter or sooner.
fn lease(lease: &Value, now: Timestamp, reasons: &mut Vec<String>) {
    let half = SignedDuration::from_secs(number(lease, "/spec/leaseDurationSeconds")) / 2;
    let renewed = text(lease, "/spec/renewTime").parse::<Timestamp>().unwrap_or_default();
    if text(lease, "/spec/holderIdentity").is_empty() || now.duration_since(renewed) > half {
        reasons.push(format!("was last renewed at {renewed}"));
    }
}

/// Checks the objects that every namespace gets.
fn namespace(namespace: &Value, objects: &Objects, reasons: &mut Vec<String>) {
    let name = text(namespace, "/metadata/name");
    for key in
        [format!("/registry/serviceaccounts/{name}/default"), format!("/registry/configmaps/{name}/kube-root-ca.crt")]
    {
        if !objects.by_key.contains_key(&key) {
            reasons.push(format!("lacks {key}"));
        }
    }
}

/// Checks that a claim has its volume and its size; if it is pending, that no free volume of its class is left, and that no
/// driver makes volumes of its class.
fn claim(claim: &Value, objects: &Objects, reasons: &mut Vec<String>) {
    let class = text(claim, "/spec/storageClassName");
    let (size, wanted) = (text(claim, "/status/capacity/storage"), text(claim, "/spec/resources/requests/storage"));
    match text(claim, "/status/phase") {
        "Bound" if size == wanted => {}
        "Bound" => reasons.push(format!("has {size} of {wanted}")),
        "Pending" => {
            let is_free = |volume: &&Value| {
                text(volume, "/spec/storageClassName") == class && text(volume, "/status/phase") == "Available"
            };
            let free = objects.below("/registry/persistentvolumes/").find(is_free);
            let is_provisioned = objects.by_key.contains_key(&format!("/registry/storageclasses/{class}"));
            if free.is_some() || is_provisioned {
                reasons.push(format!("waits for a volume of the class {class}"));
            }
        }
        phase => reasons.push(format!("is {phase}")),
    }
}

/// Checks that the phase of a volume says whether its claim exists, and that a released one is kept.
fn volume(volume: &Value, objects: &Objects, reasons: &mut Vec<String>) {
    let wanted = match text(volume, "/spec/claimRef/uid") {
        "" => "Available",
        uid if objects.uids.contains(uid) => "Bound",
        _ => "Released",
    };
    let phase = text(volume, "/status/phase");
    if phase != wanted {
        reasons.push(format!("is {phase}, not {wanted}"));
    } else if phase == "Released" && text(volume, "/spec/persistentVolumeReclaimPolicy") == "Delete" {
        reasons.push("is released and not deleted".to_owned());
    }
}
