//! Defaults of pods whose rules concern more than one field.
//!
//! Corresponds to the same functions as `pod`, and to the conversion of the old `serviceAccount` field.

use super::{Members, list_at, map_in, object_at, text};
use crate::meta::quantity::Quantity;
use serde_json::Value;

/// Returns `Always` for `:latest` and for images without tag and digest, else `IfNotPresent`.
pub fn pull_policy(container: &Members) -> Option<Value> {
    Some(Value::from(image_pull_policy(text(container, "image"))))
}

pub fn image_pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let path_start = name.rfind('/').map_or(0, |slash| slash + 1);
    let (repository, tag) = match name[path_start..].rfind(':') {
        Some(colon) => (&name[..path_start + colon], Some(&name[path_start + colon + 1..])),
        None => (name, None),
    };
    let last = &repository[path_start.min(repository.len())..];
    let readable =
        !last.is_empty() && last.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b));
    match (readable, tag, digest) {
        (true, None, None) | (true, Some("latest"), _) => "Always",
        _ => "IfNotPresent",
    }
}

/// Removes the stop signal, whose feature is off in v1.36, and a lifecycle that has nothing else.
pub fn no_stop_signal(container: &mut Members) {
    let Some(lifecycle) = object_at(container, "lifecycle") else { return };
    if lifecycle.remove("stopSignal").is_some_and(|signal| !signal.is_null()) && lifecycle.is_empty() {
        container.remove("lifecycle");
    }
}

/// Copies between `serviceAccountName` and its old name `serviceAccount`.
pub fn old_service_account_field(spec: &mut Members) {
    let name = match (text(spec, "serviceAccountName"), text(spec, "serviceAccount")) {
        ("", old) => old.to_owned(),
        (name, _) => name.to_owned(),
    };
    if !name.is_empty() {
        spec.insert("serviceAccountName".into(), Value::from(name.clone()));
        spec.insert("serviceAccount".into(), Value::from(name));
    }
}

/// Sets the request of a container for a resource that it limits without a request: the limit.
pub fn requests_from_limits(spec: &mut Members) {
    for containers in ["containers", "initContainers"] {
        for container in list_at(spec, containers) {
            if let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) {
                copy_limits(resources, |_| true);
            }
        }
    }
}

/// Sets the pod's own requests for resources that it limits: the sum of the containers' requests, else the limit.
pub fn pod_requests_from_limits(spec: &mut Members) {
    let requested = requested_by_containers(spec);
    let Some(resources) = object_at(spec, "resources") else { return };
    let has_requests = resources.get("requests").is_some_and(Value::is_object);
    let limits = resources.get("limits").and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, total) in requested {
        if limits.contains_key(&name) && is_pod_level(&name) {
            requests(resources).entry(name).or_insert(Value::from(total.to_string()));
        }
    }
    if !has_requests || resources.get("requests").is_some() {
        copy_limits(resources, is_pod_level);
    }
}

fn requested_by_containers(spec: &mut Members) -> Vec<(String, Quantity)> {
    let mut totals: Vec<(String, Quantity)> = Vec::new();
    for container in list_at(spec, "containers") {
        let requests = container.pointer("/resources/requests").and_then(Value::as_object);
        for (name, amount) in requests.into_iter().flatten() {
            let Some(Ok(amount)) = amount.as_str().map(Quantity::parse) else { continue };
            match totals.iter_mut().find(|(known, _)| known == name) {
                Some((_, total)) => *total += amount,
                None => totals.push((name.clone(), amount)),
            }
        }
    }
    totals
}

/// Returns whether a resource may be given for a pod as a whole.
fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

fn copy_limits(resources: &mut Members, applies: fn(&str) -> bool) {
    let limits = resources.get("limits").and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, limit) in limits.into_iter().filter(|(name, _)| applies(name)) {
        requests(resources).entry(name).or_insert(limit);
    }
}

fn requests(resources: &mut Members) -> &mut Members {
    map_in(resources, "requests").expect("decoding made requests a map")
}

/// Copies `containerPort` to `hostPort` for pods on the host's network.
pub fn host_ports_on_host_network(spec: &mut Members) {
    if spec.get("hostNetwork") != Some(&Value::Bool(true)) {
        return;
    }
    for containers in ["containers", "initContainers"] {
        for container in list_at(spec, containers) {
            let ports = container.get_mut("ports").and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
                if !port.contains_key("hostPort") {
                    let number = port.get("containerPort").cloned().filter(|number| number != &Value::from(0));
                    port.extend(number.map(|number| ("hostPort".to_owned(), number)));
                }
            }
        }
    }
}

/// Sets the service name of a gRPC probe to the empty text, which is written.
pub fn grpc_service(grpc: &mut Members) {
    grpc.entry("service").or_insert_with(|| Value::from(""));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pull_policy_follows_the_tag() {
        let cases = [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("registry.example.com:5000/team/app", "Always"),
            ("nginx:1.25", "IfNotPresent"),
            ("registry.example.com:5000/team/app:1.4", "IfNotPresent"),
            ("nginx@sha256:0123456789abcdef", "IfNotPresent"),
            ("nginx:latest@sha256:0123456789abcdef", "Always"),
            ("", "IfNotPresent"),
            ("NGINX", "IfNotPresent"),
        ];
        for (image, policy) in cases {
            assert_eq!(image_pull_policy(image), policy, "{image}");
        }
    }
}
