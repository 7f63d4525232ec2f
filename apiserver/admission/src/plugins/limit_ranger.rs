//! LimitRanger: sets a LimitRange's default resources on containers without any, and rejects resources out of range.
//!
//! Corresponds to plugin/pkg/admission/limitranger.

use super::pod_parts::{items, text};
use crate::{AdmissionPlugin, Attributes, Operation};
use async_trait::async_trait;
use proto::Status;
use proto::meta::quantity::Quantity;
use proto::quota::pod_resources::{Amounts, amounts, of_pod};
use serde_json::{Value, json};
use std::sync::Arc;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";
const CONTAINER_LISTS: [(&str, &str); 2] = [("containers", "container"), ("initContainers", "init container")];

pub struct LimitRanger;

#[async_trait]
impl AdmissionPlugin for LimitRanger {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if attributes.operation != Operation::Create || !attributes.is("", "pods") {
            return Ok(());
        }
        let ranges = ranges_of(attributes)?;
        let Some(pod) = attributes.object.as_deref_mut() else { return Ok(()) };
        for range in ranges {
            set_defaults(pod, &range);
        }
        Ok(())
    }

    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let is_create = attributes.operation == Operation::Create;
        let is_resize = attributes.served.resource == "pods" && attributes.subresource == "resize";
        let is_pod = (attributes.is("", "pods") && is_create) || is_resize;
        let object = attributes.new_object();
        let is_ending = !is_create && object.pointer("/metadata/deletionTimestamp").is_some_and(|t| !t.is_null());
        if !(is_pod || attributes.is("", "persistentvolumeclaims")) || is_ending {
            return Ok(());
        }
        for range in ranges_of(attributes)? {
            let mut errors = Vec::new();
            for limit in items(&range, "/spec/limits") {
                errors.extend(if is_pod { pod_errors(object, limit) } else { claim_errors(object, limit) });
            }
            match errors.as_slice() {
                [] => {}
                [one] => return Err(attributes.forbidden(one)),
                several => return Err(attributes.forbidden(format_args!("[{}]", several.join(", ")))),
            }
        }
        Ok(())
    }
}

fn ranges_of(attributes: &Attributes<'_>) -> Result<Vec<Arc<Value>>, Status> {
    Ok(attributes.lookup.list("", "limitranges", attributes.namespace)?.iter().map(|range| range.value()).collect())
}

/// Sets defaults, and lists in an annotation what was set.
fn set_defaults(pod: &mut Value, range: &Value) {
    let (mut requests, mut limits) = (serde_json::Map::new(), serde_json::Map::new());
    for limit in items(range, "/spec/limits").filter(|limit| limit["type"] == "Container") {
        requests.extend(limit["defaultRequest"].as_object().cloned().unwrap_or_default());
        limits.extend(limit["default"].as_object().cloned().unwrap_or_default());
    }
    let mut told = Vec::new();
    for (list, what) in CONTAINER_LISTS {
        for container in pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let name = text(container, "/name").to_owned();
            for (field, one, defaults) in [("requests", "request", &requests), ("limits", "limit", &limits)] {
                let set = set_missing(container, field, defaults);
                if !set.is_empty() {
                    told.push(format!("{} {one} for {what} {name}", set.join(", ")));
                }
            }
        }
    }
    if !told.is_empty() {
        pod["metadata"]["annotations"][ANNOTATION] = json!(format!("LimitRanger plugin set: {}", told.join("; ")));
    }
}

/// Sets missing resources and returns their names, sorted.
fn set_missing(container: &mut Value, field: &str, defaults: &serde_json::Map<String, Value>) -> Vec<String> {
    let mut set = Vec::new();
    for (name, value) in defaults {
        if container.pointer("/resources").and_then(|r| r.get(field)).is_none_or(|list| list.get(name).is_none()) {
            container["resources"][field][name] = value.clone();
            set.push(name.clone());
        }
    }
    set.sort();
    set
}

fn pod_errors(pod: &Value, limit: &Value) -> Vec<String> {
    let kind = text(limit, "/type");
    let spec = &pod["spec"];
    match kind {
        "Container" => CONTAINER_LISTS
            .iter()
            .flat_map(|(list, _)| items(spec, &format!("/{list}")))
            .flat_map(|container| {
                let of = |which: &str| amounts(container.pointer("/resources").and_then(|r| r.get(which)));
                errors(limit, kind, &of("requests"), &of("limits"))
            })
            .collect(),
        "Pod" => errors(limit, kind, &of_pod(spec, "requests"), &of_pod(spec, "limits")),
        _ => Vec::new(),
    }
}

fn errors(limit: &Value, kind: &str, requests: &Amounts, limits: &Amounts) -> Vec<String> {
    let bounds = |field: &str| amounts(limit.get(field));
    let mut errors = Vec::new();
    for (name, bound) in bounds("min") {
        let what = format!("minimum {name} usage per {kind} is {bound}");
        errors.extend(match (requests.get(&name), limits.get(&name)) {
            (None, _) => Some(format!("{what}.  No request is specified")),
            (Some(request), _) if *request < bound => Some(format!("{what}, but request is {request}")),
            (_, Some(limit)) if *limit < bound => Some(format!("{what}, but limit is {limit}")),
            _ => None,
        });
    }
    for (name, bound) in bounds("max") {
        let what = format!("maximum {name} usage per {kind} is {bound}");
        errors.extend(match (requests.get(&name), limits.get(&name)) {
            (_, None) => Some(format!("{what}.  No limit is specified")),
            (_, Some(limit)) if *limit > bound => Some(format!("{what}, but limit is {limit}")),
            (Some(request), _) if *request > bound => Some(format!("{what}, but request is {request}")),
            _ => None,
        });
    }
    for (name, bound) in bounds("maxLimitRequestRatio") {
        let what = format!("{name} max limit to request ratio per {kind} is {bound}");
        let positive = |list: &Amounts| list.get(&name).filter(|quantity| !quantity.is_zero()).map(Quantity::as_f64);
        errors.extend(match (positive(requests), positive(limits)) {
            (None, _) => Some(format!("{what}, but no request is specified or request is 0")),
            (_, None) => Some(format!("{what}, but no limit is specified or limit is 0")),
            (Some(request), Some(limit)) if limit / request > bound.as_f64() => {
                Some(format!("{what}, but provided ratio is {:.6}", limit / request))
            }
            _ => None,
        });
    }
    errors
}

/// Checks a claim. It has no limits, so that its request must be within both bounds.
fn claim_errors(claim: &Value, limit: &Value) -> Vec<String> {
    let kind = text(limit, "/type");
    if kind != "PersistentVolumeClaim" {
        return Vec::new();
    }
    let requests = amounts(claim.pointer("/spec/resources/requests"));
    let mut errors = Vec::new();
    for (field, word) in [("min", "minimum"), ("max", "maximum")] {
        for (name, bound) in amounts(limit.get(field)) {
            let what = format!("{word} {name} usage per {kind} is {bound}");
            errors.extend(match requests.get(&name) {
                None => Some(format!("{what}.  No request is specified")),
                Some(request) if (field == "min" && *request < bound) || (field == "max" && *request > bound) => {
                    Some(format!("{what}, but request is {request}"))
                }
                Some(_) => None,
            });
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Outcome, Write};

    fn range(limit: Value) -> Value {
        json!({"metadata": {"name": "l", "namespace": "a"}, "spec": {"limits": [limit]}})
    }

    async fn create(limit: Value, spec: Value) -> Outcome {
        Write::create("", "pods", json!({"metadata": {"name": "p", "namespace": "a"}, "spec": spec}))
            .beside("", "limitranges", range(limit))
            .run(&LimitRanger)
            .await
    }

    #[tokio::test]
    async fn containers_get_defaults() {
        let limit = json!({
            "type": "Container", "default": {"cpu": "500m", "memory": "256Mi"},
            "defaultRequest": {"cpu": "100m", "memory": "256Mi"},
        });
        let spec = json!({
            "containers": [{"name": "c"}, {"name": "d", "resources": {"requests": {"cpu": "200m"}}}],
            "initContainers": [{"name": "i", "resources": {
                "requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"},
            }}],
        });
        let pod = create(limit, spec.clone()).await.passed();
        let all = json!({"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "500m", "memory": "256Mi"}});
        assert_eq!(pod["spec"]["containers"][0]["resources"], all);
        assert_eq!(
            pod["spec"]["containers"][1]["resources"],
            json!({"requests": {"cpu": "200m", "memory": "256Mi"}, "limits": {"cpu": "500m", "memory": "256Mi"}})
        );
        assert_eq!(pod["spec"]["initContainers"], spec["initContainers"]);
        assert_eq!(
            pod["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for container c; memory \
             request for container d; cpu, memory limit for container d"
        );
    }

    #[tokio::test]
    async fn a_whole_pod_stays_in_range() {
        let limit = || json!({"type": "Pod", "min": {"memory": "64Mi"}, "max": {"cpu": "1"}, "maxLimitRequestRatio": {"memory": "2"}});
        let both = |cpu: &str, memory: &str| json!({"cpu": cpu, "memory": memory});
        let container = |list: Value| json!({"name": "c", "resources": {"requests": list, "limits": list}});
        for (spec, why) in [
            (
                json!({"containers": [{"name": "c"}]}),
                "[minimum memory usage per Pod is 64Mi.  No request is specified, maximum cpu usage per Pod is 1.  No limit is specified, memory max limit to request ratio per Pod is 2, but no request is specified or request is 0]",
            ),
            (
                json!({"containers": [container(both("2", "1Mi"))]}),
                "[minimum memory usage per Pod is 64Mi, but request is 1Mi, maximum cpu usage per Pod is 1, but limit is 2]",
            ),
            (
                json!({"containers": [container(both("600m", "64Mi")), container(both("600m", "64Mi"))]}),
                "maximum cpu usage per Pod is 1, but limit is 1200m",
            ),
            (
                json!({"containers": [container(both("600m", "64Mi"))], "initContainers": [container(both("2", "64Mi"))]}),
                "maximum cpu usage per Pod is 1, but limit is 2",
            ),
            (
                json!({"containers": [{"resources": {"requests": {"memory": "64Mi"}, "limits": both("1", "160Mi")}}]}),
                "memory max limit to request ratio per Pod is 2, but provided ratio is 2.500000",
            ),
        ] {
            assert_eq!(create(limit(), spec).await.message(), format!(r#"pods "p" is forbidden: {why}"#));
        }
        create(limit(), json!({"containers": [container(both("1", "64Mi"))]})).await.passed();
    }

    #[tokio::test]
    async fn claims_stay_in_range() {
        let limit = json!({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}});
        for (size, why) in [
            ("1Gi", ""),
            ("512Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi"),
            ("3Gi", "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"),
        ] {
            let claim = json!({
                "metadata": {"name": "c", "namespace": "a"}, "spec": {"resources": {"requests": {"storage": size}}},
            });
            let seen = Write::create("", "persistentvolumeclaims", claim)
                .beside("", "limitranges", range(limit.clone()))
                .run(&LimitRanger)
                .await;
            let expected = if why.is_empty() {
                String::new()
            } else {
                format!(r#"persistentvolumeclaims "c" is forbidden: {why}"#)
            };
            assert_eq!(seen.message(), expected);
        }
    }
}
