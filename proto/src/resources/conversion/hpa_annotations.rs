//! The JSON inside the annotations of a v1 HorizontalPodAutoscaler.
//!
//! Corresponds to the MetricSpec, MetricStatus and HorizontalPodAutoscalerCondition types of k8s.io/api/autoscaling/v1
//! and to the internal HorizontalPodAutoscalerBehavior. The order of fields is that in which Kubernetes writes them.
//! Deviation: field names are matched exactly, where Kubernetes accepts any letter case.

use crate::meta::quantity::Quantity;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A label selector, whose parts are copied unchanged.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Labels {
    #[serde(skip_serializing_if = "Option::is_none")]
    match_labels: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    match_expressions: Option<Value>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Reference {
    kind: String,
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    api_version: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metric {
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<ObjectMetric>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pods: Option<PodsMetric>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<ResourceMetric>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container_resource: Option<ResourceMetric>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external: Option<ExternalMetric>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectMetric {
    target: Reference,
    metric_name: String,
    target_value: Quantity,
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<Labels>,
    #[serde(skip_serializing_if = "Option::is_none")]
    average_value: Option<Quantity>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodsMetric {
    metric_name: String,
    target_average_value: Quantity,
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<Labels>,
}

/// A resource of all containers, or of the named one.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResourceMetric {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_average_utilization: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_average_value: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ExternalMetric {
    metric_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric_selector: Option<Labels>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_value: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_average_value: Option<Quantity>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MetricStatus {
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<ObjectStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pods: Option<PodsStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<ResourceStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container_resource: Option<ResourceStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external: Option<ExternalStatus>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectStatus {
    target: Reference,
    metric_name: String,
    current_value: Quantity,
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<Labels>,
    #[serde(skip_serializing_if = "Option::is_none")]
    average_value: Option<Quantity>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodsStatus {
    metric_name: String,
    current_average_value: Quantity,
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<Labels>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResourceStatus {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_average_utilization: Option<i32>,
    current_average_value: Quantity,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ExternalStatus {
    metric_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    metric_selector: Option<Labels>,
    current_value: Quantity,
    #[serde(skip_serializing_if = "Option::is_none")]
    current_average_value: Option<Quantity>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    last_transition_time: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
}

/// Kubernetes encodes its internal type here, whose members have the names of Go's fields.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Behavior {
    #[serde(alias = "scaleUp")]
    scale_up: Option<Rules>,
    #[serde(alias = "scaleDown")]
    scale_down: Option<Rules>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all(serialize = "PascalCase"), default)]
struct Rules {
    #[serde(alias = "StabilizationWindowSeconds", alias = "stabilizationWindowSeconds")]
    stabilization_window_seconds: Option<i32>,
    #[serde(alias = "SelectPolicy", alias = "selectPolicy")]
    select_policy: Option<String>,
    #[serde(alias = "Policies")]
    policies: Option<Vec<Policy>>,
    #[serde(alias = "Tolerance")]
    tolerance: Option<Quantity>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all(serialize = "PascalCase"), default)]
struct Policy {
    #[serde(rename(serialize = "Type"), alias = "Type", alias = "type")]
    kind: String,
    #[serde(alias = "Value")]
    value: i32,
    #[serde(alias = "PeriodSeconds", alias = "periodSeconds")]
    period_seconds: i32,
}

/// Removes null members, because the v2 form omits optional fields that are not set.
pub(super) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept: Map<String, Value> =
                fields.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k, without_nulls(v))).collect();
            Value::Object(kept)
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        scalar => scalar,
    }
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn quantity(value: &Value, pointer: &str) -> Option<Quantity> {
    value.pointer(pointer).filter(|v| !v.is_null()).and_then(|v| Quantity::try_from(v).ok())
}

fn percent(value: &Value, pointer: &str) -> Option<i32> {
    value.pointer(pointer).and_then(Value::as_i64).and_then(|p| i32::try_from(p).ok())
}

fn decoded<T: serde::de::DeserializeOwned>(value: Option<&Value>) -> Option<T> {
    value.filter(|v| !v.is_null()).and_then(|v| serde_json::from_value(v.clone()).ok())
}

/// Reads the member of a v2 metric with a name, or returns `None` if it is absent, as it may be before validation.
fn part<T>(metric: &Value, name: &str, read: impl Fn(&Value) -> T) -> Option<T> {
    metric.get(name).filter(|v| v.is_object()).map(read)
}

fn metric_name(source: &Value) -> String {
    source.get("metric").map(|m| text(m, "name")).unwrap_or_default()
}

fn metric_selector(source: &Value) -> Option<Labels> {
    decoded(source.pointer("/metric/selector"))
}

fn described_object(source: &Value) -> Reference {
    decoded(source.get("describedObject")).unwrap_or_default()
}

fn container(source: &Value) -> Option<String> {
    source.get("container").and_then(Value::as_str).map(str::to_owned)
}

impl Metric {
    pub(super) fn from_v2(metric: &Value) -> Self {
        let resource = |source: &Value| ResourceMetric {
            name: text(source, "name"),
            target_average_utilization: percent(source, "/target/averageUtilization"),
            target_average_value: quantity(source, "/target/averageValue"),
            container: container(source),
        };
        Self {
            kind: text(metric, "type"),
            object: part(metric, "object", |source| ObjectMetric {
                target: described_object(source),
                metric_name: metric_name(source),
                target_value: quantity(source, "/target/value").unwrap_or_default(),
                selector: metric_selector(source),
                average_value: quantity(source, "/target/averageValue"),
            }),
            pods: part(metric, "pods", |source| PodsMetric {
                metric_name: metric_name(source),
                target_average_value: quantity(source, "/target/averageValue").unwrap_or_default(),
                selector: metric_selector(source),
            }),
            resource: part(metric, "resource", resource),
            container_resource: part(metric, "containerResource", resource),
            external: part(metric, "external", |source| ExternalMetric {
                metric_name: metric_name(source),
                metric_selector: metric_selector(source),
                target_value: quantity(source, "/target/value"),
                target_average_value: quantity(source, "/target/averageValue"),
            }),
        }
    }

    pub(super) fn into_v2(self) -> Value {
        let resource = |source: ResourceMetric| {
            let kind = if source.target_average_utilization.is_some() { "Utilization" } else { "AverageValue" };
            json!({
                "name": source.name,
                "container": source.container,
                "target": {
                    "type": kind,
                    "averageUtilization": source.target_average_utilization,
                    "averageValue": source.target_average_value,
                },
            })
        };
        without_nulls(json!({
            "type": self.kind,
            "object": self.object.map(|source| json!({
                "describedObject": source.target,
                "metric": {"name": source.metric_name, "selector": source.selector},
                "target": {
                    "type": if source.average_value.is_some() { "AverageValue" } else { "Value" },
                    "value": source.target_value,
                    "averageValue": source.average_value,
                },
            })),
            "pods": self.pods.map(|source| json!({
                "metric": {"name": source.metric_name, "selector": source.selector},
                "target": {"type": "AverageValue", "averageValue": source.target_average_value},
            })),
            "resource": self.resource.map(resource),
            "containerResource": self.container_resource.map(resource),
            "external": self.external.map(|source| json!({
                "metric": {"name": source.metric_name, "selector": source.metric_selector},
                "target": {
                    "type": if source.target_value.is_some() { "Value" } else { "AverageValue" },
                    "value": source.target_value,
                    "averageValue": source.target_average_value,
                },
            })),
        }))
    }
}

impl MetricStatus {
    pub(super) fn from_v2(metric: &Value) -> Self {
        let resource = |source: &Value| ResourceStatus {
            name: text(source, "name"),
            current_average_utilization: percent(source, "/current/averageUtilization"),
            current_average_value: quantity(source, "/current/averageValue").unwrap_or_default(),
            container: container(source),
        };
        Self {
            kind: text(metric, "type"),
            object: part(metric, "object", |source| ObjectStatus {
                target: described_object(source),
                metric_name: metric_name(source),
                current_value: quantity(source, "/current/value").unwrap_or_default(),
                selector: metric_selector(source),
                average_value: quantity(source, "/current/averageValue"),
            }),
            pods: part(metric, "pods", |source| PodsStatus {
                metric_name: metric_name(source),
                current_average_value: quantity(source, "/current/averageValue").unwrap_or_default(),
                selector: metric_selector(source),
            }),
            resource: part(metric, "resource", resource),
            container_resource: part(metric, "containerResource", resource),
            external: part(metric, "external", |source| ExternalStatus {
                metric_name: metric_name(source),
                metric_selector: metric_selector(source),
                current_value: quantity(source, "/current/value").unwrap_or_default(),
                current_average_value: quantity(source, "/current/averageValue"),
            }),
        }
    }

    pub(super) fn into_v2(self) -> Value {
        let resource = |source: ResourceStatus| {
            json!({
                "name": source.name,
                "container": source.container,
                "current": {
                    "averageUtilization": source.current_average_utilization,
                    "averageValue": source.current_average_value,
                },
            })
        };
        without_nulls(json!({
            "type": self.kind,
            "object": self.object.map(|source| json!({
                "describedObject": source.target,
                "metric": {"name": source.metric_name, "selector": source.selector},
                "current": {"value": source.current_value, "averageValue": source.average_value},
            })),
            "pods": self.pods.map(|source| json!({
                "metric": {"name": source.metric_name, "selector": source.selector},
                "current": {"averageValue": source.current_average_value},
            })),
            "resource": self.resource.map(resource),
            "containerResource": self.container_resource.map(resource),
            "external": self.external.map(|source| json!({
                "metric": {"name": source.metric_name, "selector": source.metric_selector},
                "current": {"value": source.current_value, "averageValue": source.current_average_value},
            })),
        }))
    }
}

impl Behavior {
    pub(super) fn is_empty(&self) -> bool {
        self.scale_up.is_none() && self.scale_down.is_none()
    }

    pub(super) fn from_v2(behavior: &Value) -> Self {
        Self { scale_up: decoded(behavior.get("scaleUp")), scale_down: decoded(behavior.get("scaleDown")) }
    }

    pub(super) fn into_v2(self) -> Value {
        without_nulls(json!({
            "scaleUp": self.scale_up.map(Rules::into_v2),
            "scaleDown": self.scale_down.map(Rules::into_v2),
        }))
    }
}

impl Rules {
    fn into_v2(self) -> Value {
        let policies = self.policies.map(|policies| {
            let v2 = |p: Policy| json!({"type": p.kind, "value": p.value, "periodSeconds": p.period_seconds});
            policies.into_iter().map(v2).collect::<Vec<_>>()
        });
        json!({
            "stabilizationWindowSeconds": self.stabilization_window_seconds,
            "selectPolicy": self.select_policy,
            "policies": policies,
            "tolerance": self.tolerance,
        })
    }
}
