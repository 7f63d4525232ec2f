//! The usage of a quota by one object: counts, and the resources of pods, claims and services.
//!
//! Corresponds to pkg/quota/v1/evaluator/core and k8s.io/apiserver/pkg/quota/v1/generic.

use super::pod_resources::{Amounts, add, amounts, of_pod};
use crate::fields::{items, metadata_entry, text};
use crate::meta::quantity::{Format, Quantity};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Resources of the core group that are counted under their plain name, too.
const PLAIN_COUNTS: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];
/// Resources that every container must specify if a quota limits them.
const MUST_BE_SPECIFIED: &[&str] = &["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
const STORAGE_CLASS_SUFFIX: &str = ".storageclass.storage.k8s.io/";

fn count(number: usize) -> Quantity {
    Quantity::new(i64::try_from(number).unwrap_or(i64::MAX), Format::DecimalSI)
}

/// Returns the name of the count: `count/deployments.apps`, `count/pods`.
fn counted(group: &str, resource: &str) -> String {
    if group.is_empty() { format!("count/{resource}") } else { format!("count/{resource}.{group}") }
}

/// Returns the usage of an object, under all names by which a quota may limit it.
pub fn usage(group: &str, resource: &str, object: &Value) -> Amounts {
    let mut used = Amounts::from([(counted(group, resource), count(1))]);
    if !group.is_empty() {
        return used;
    }
    if resource == "pods" && matches!(text(object, "/status/phase"), "Succeeded" | "Failed") {
        return used;
    }
    if PLAIN_COUNTS.contains(&resource) {
        used.insert(resource.to_owned(), count(1));
    }
    match resource {
        "pods" => used.extend(of_pods(&object["spec"])),
        "services" => used.extend(of_services(&object["spec"])),
        "persistentvolumeclaims" => used.extend(of_claims(object)),
        _ => {}
    }
    used
}

fn of_pods(spec: &Value) -> Amounts {
    let mut used = Amounts::new();
    for (which, mut total) in [("requests", of_pod(spec, "requests")), ("limits", of_pod(spec, "limits"))] {
        add(&mut total, &amounts(spec.get("overhead")));
        for (name, quantity) in total {
            let is_plain = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage");
            let is_huge = name.starts_with("hugepages-");
            if which == "requests" && (is_plain || is_huge) {
                used.insert(name.clone(), quantity);
            }
            let is_extended = which == "requests" && name.contains('/') && !name.contains("kubernetes.io/");
            if is_plain || is_extended || (is_huge && which == "requests") {
                used.insert(format!("{which}.{name}"), quantity);
            }
        }
    }
    used
}

fn of_services(spec: &Value) -> Amounts {
    let ports = || count(items(spec, "/ports").count());
    match text(spec, "/type") {
        "NodePort" => Amounts::from([("services.nodeports".to_owned(), ports())]),
        "LoadBalancer" => {
            let mut used = Amounts::from([("services.loadbalancers".to_owned(), count(1))]);
            let opened = items(spec, "/ports").filter(|port| port["nodePort"].as_i64().unwrap_or(0) != 0).count();
            let ports = if spec["allocateLoadBalancerNodePorts"] == false { count(opened) } else { ports() };
            used.insert("services.nodeports".to_owned(), ports);
            used
        }
        _ => Amounts::new(),
    }
}

fn of_claims(claim: &Value) -> Amounts {
    let requested = amounts(claim.pointer("/spec/resources/requests")).get("storage").copied();
    let class = metadata_entry(claim, "annotations", "volume.beta.kubernetes.io/storage-class")
        .unwrap_or_else(|| text(claim, "/spec/storageClassName"));
    let mut used = Amounts::new();
    if let Some(size) = requested {
        used.insert("requests.storage".to_owned(), size);
    }
    if !class.is_empty() {
        used.insert(format!("{class}{STORAGE_CLASS_SUFFIX}persistentvolumeclaims"), count(1));
        if let Some(size) = requested {
            used.insert(format!("{class}{STORAGE_CLASS_SUFFIX}requests.storage"), size);
        }
    }
    used
}

/// Returns whether objects of a kind can use a resource of a quota.
pub fn matches_resource(group: &str, resource: &str, name: &str) -> bool {
    if name == counted(group, resource) || (group.is_empty() && PLAIN_COUNTS.contains(&resource) && name == resource) {
        return true;
    }
    match (group, resource) {
        ("", "pods") => {
            let (prefix, rest) = name.split_once('.').unwrap_or(("", name));
            let is_storage = rest == "storage" || name.contains(STORAGE_CLASS_SUFFIX);
            !is_storage
                && (matches!(name, "cpu" | "memory" | "ephemeral-storage")
                    || name.starts_with("hugepages-")
                    || matches!(prefix, "requests" | "limits"))
        }
        ("", "services") => matches!(name, "services.nodeports" | "services.loadbalancers"),
        ("", "persistentvolumeclaims") => name == "requests.storage" || name.contains(STORAGE_CLASS_SUFFIX),
        _ => false,
    }
}

/// Returns the error for containers that do not specify a limited resource: `must specify limits.memory for: c`.
pub fn unmet_constraints<'a>(pod: &Value, limited: impl Iterator<Item = &'a String>) -> Option<String> {
    let required: Vec<&String> = limited.filter(|name| MUST_BE_SPECIFIED.contains(&name.as_str())).collect();
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let spec = &pod["spec"];
    for container in items(spec, "/containers").chain(items(spec, "/initContainers")) {
        for name in &required {
            let (which, what) = name.split_once('.').unwrap_or(("requests", name));
            let says = |holder: &Value| holder.pointer(&format!("/resources/{which}/{what}")).is_some();
            if !says(container) && !says(spec) {
                missing.entry(name).or_default().insert(text(container, "/name"));
            }
        }
    }
    if missing.is_empty() {
        return None;
    }
    let listed = missing
        .iter()
        .map(|(name, containers)| format!("{name} for: {}", containers.iter().copied().collect::<Vec<_>>().join(",")));
    Some(format!("must specify {}", listed.collect::<Vec<_>>().join("; ")))
}
