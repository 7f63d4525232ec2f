//! Finds ResourceQuotas and PodDisruptionBudgets whose status does not fit the objects that they count.

use super::{Objects, has_condition, has_ended, items, number, text};
use proto::meta::quantity::Quantity;
use serde_json::Value;

/// Checks that a quota limits what its spec says, and counts the pods and Services that exist.
pub fn quota(quota: &Value, objects: &Objects, reasons: &mut Vec<String>) {
    if quota["status"]["hard"] != quota["spec"]["hard"] {
        reasons.push("does not limit what its spec says".to_owned());
    }
    let namespace = text(quota, "/metadata/namespace");
    let (pods, services) = (format!("/registry/pods/{namespace}/"), format!("/registry/services/specs/{namespace}/"));
    let active: Vec<&Value> = objects.below(&pods).filter(|pod| !has_ended(pod)).collect();
    let cpu = active.iter().flat_map(|pod| items(pod, "/spec/containers"));
    let cpu = cpu.map(|container| milli(text(container, "/resources/requests/cpu"))).sum();
    let ports = objects.below(&services).flat_map(|service| items(service, "/spec/ports"));
    let node_ports = ports.filter(|port| number(port, "/nodePort") != 0).count();
    for (name, exists) in [
        ("pods", thousands(active.len())),
        ("requests.cpu", cpu),
        ("services", thousands(objects.below(&services).count())),
        ("services.nodeports", thousands(node_ports)),
    ] {
        let used = quota["status"]["used"].get(name).and_then(Value::as_str);
        if let Some(used) = used.map(milli).filter(|used| *used != exists) {
            reasons.push(format!("counts {used} thousandths of {name}, and {exists} exist"));
        }
    }
}

fn milli(quantity: &str) -> i64 {
    Quantity::parse(quantity).map_or(0, |quantity| quantity.milli_value())
}

fn thousands(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX).saturating_mul(1000)
}

/// Checks that a budget counts the ready pods that it selects, and waits for no evicted one.
pub fn budget(budget: &Value, objects: &Objects, reasons: &mut Vec<String>) {
    let pods = format!("/registry/pods/{}/", text(budget, "/metadata/namespace"));
    let selector = budget.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    let is_selected =
        |pod: &&Value| selector.into_iter().flatten().all(|(key, value)| pod["metadata"]["labels"][key] == *value);
    let healthy = objects.below(&pods).filter(is_selected).filter(|pod| has_condition(pod, "Ready")).count();
    let said = number(budget, "/status/currentHealthy");
    if usize::try_from(said).ok() != Some(healthy) {
        reasons.push(format!("counts {said} healthy pods of {healthy}"));
    }
    let (allowed, desired) = (number(budget, "/status/disruptionsAllowed"), number(budget, "/status/desiredHealthy"));
    if allowed != (said - desired).max(0) {
        reasons.push(format!("allows {allowed} disruptions, with {said} healthy pods of {desired}"));
    }
    if number(budget, "/status/observedGeneration") != number(budget, "/metadata/generation") {
        reasons.push("has not observed its spec".to_owned());
    }
    if budget.pointer("/status/disruptedPods").and_then(Value::as_object).is_some_and(|pods| !pods.is_empty()) {
        reasons.push("waits for evicted pods".to_owned());
    }
}
