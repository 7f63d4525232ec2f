//! Converts a HorizontalPodAutoscaler between v1 and v2. v1 has the CPU target alone; annotations hold the other
//! fields.
//!
//! Corresponds to pkg/apis/autoscaling/v1/conversion.go. The v2 form is stored.

use super::hpa_annotations::{self as annotations, Behavior, Condition, Metric, MetricStatus};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// The CPU target of an autoscaler without any metric.
const DEFAULT_CPU_UTILIZATION: i64 = 80;

/// Converts from v1 to v2: annotations become fields.
pub fn to_v2(mut hpa: Value) -> Value {
    hpa["apiVersion"] = json!("autoscaling/v2");
    let taken = take_annotations(&mut hpa);
    let read = |name| taken.iter().find(|(key, _)| *key == name).map(|(_, text)| text.as_str());

    if let Some(spec) = hpa.get_mut("spec").and_then(Value::as_object_mut) {
        let mut metrics: Vec<Value> =
            decoded::<Vec<Metric>>(read(METRICS)).into_iter().flatten().map(Metric::into_v2).collect();
        if let Some(percent) = spec.remove("targetCPUUtilizationPercentage").filter(|p| !p.is_null()) {
            metrics.push(cpu_utilization(percent));
        }
        if metrics.is_empty() {
            metrics.push(cpu_utilization(json!(DEFAULT_CPU_UTILIZATION)));
        }
        spec.insert("metrics".into(), Value::Array(metrics));
        if let Some(behavior) = decoded::<Behavior>(read(BEHAVIOR)).filter(|b| !b.is_empty()) {
            spec.insert("behavior".into(), behavior.into_v2());
        }
    }
    if let Some(status) = hpa.get_mut("status").and_then(Value::as_object_mut) {
        let cpu = status.remove("currentCPUUtilizationPercentage").filter(|p| !p.is_null());
        let mut current: Vec<Value> = cpu.map(current_cpu_utilization).into_iter().collect();
        // The annotation holds more than the one field.
        if let Some(metrics) = decoded::<Vec<MetricStatus>>(read(CURRENT_METRICS)).filter(|m| !m.is_empty()) {
            current = metrics.into_iter().map(MetricStatus::into_v2).collect();
        }
        status.insert("currentMetrics".into(), if current.is_empty() { Value::Null } else { Value::Array(current) });
        if let Some(conditions) = decoded::<Vec<Condition>>(read(CONDITIONS)).filter(|c| !c.is_empty()) {
            status.insert("conditions".into(), plain(&conditions));
        }
        if status.get("currentReplicas").is_some_and(|n| n == 0) {
            status.remove("currentReplicas");
        }
        status.entry("desiredReplicas").or_insert(json!(0));
    }
    hpa
}

/// Converts from v2 to v1: fields that v1 lacks become annotations.
pub fn to_v1(mut hpa: Value) -> Value {
    hpa["apiVersion"] = json!("autoscaling/v1");
    // Annotations from elsewhere must not stand for fields of v2.
    take_annotations(&mut hpa);
    let mut made: Vec<(&str, String)> = Vec::new();

    if let Some(spec) = hpa.get_mut("spec").and_then(Value::as_object_mut) {
        let metrics = take_list(spec, "metrics");
        let first_cpu = metrics.iter().find(|m| is_cpu(m));
        if let Some(percent) = first_cpu.and_then(|m| m.pointer("/resource/target/averageUtilization")).cloned() {
            spec.insert("targetCPUUtilizationPercentage".into(), percent);
        }
        let has_percent = |m: &&Value| m.pointer("/resource/target/averageUtilization").is_some_and(|p| !p.is_null());
        let others: Vec<Metric> =
            metrics.iter().filter(|m| !(is_cpu(m) && has_percent(m))).map(Metric::from_v2).collect();
        if !others.is_empty() {
            made.push((METRICS, encoded(&others)));
        }
        if let Some(behavior) = spec.remove("behavior").filter(|b| !b.is_null()) {
            made.push((BEHAVIOR, encoded(&Behavior::from_v2(&behavior))));
        }
    }
    if let Some(status) = hpa.get_mut("status").and_then(Value::as_object_mut) {
        let current = take_list(status, "currentMetrics");
        let mut percents =
            current.iter().filter(|m| is_cpu(m)).filter_map(|m| m.pointer("/resource/current/averageUtilization"));
        if let Some(percent) = percents.next_back().cloned() {
            status.insert("currentCPUUtilizationPercentage".into(), percent);
        }
        if !current.is_empty() {
            let current: Vec<MetricStatus> = current.iter().map(MetricStatus::from_v2).collect();
            made.push((CURRENT_METRICS, encoded(&current)));
        }
        let conditions: Vec<Condition> =
            take_list(status, "conditions").into_iter().filter_map(|c| serde_json::from_value(c).ok()).collect();
        if !conditions.is_empty() {
            made.push((CONDITIONS, encoded(&conditions)));
        }
        for count in ["currentReplicas", "desiredReplicas"] {
            status.entry(count).or_insert(json!(0));
        }
    }
    for (name, text) in made {
        hpa["metadata"]["annotations"][name] = json!(text);
    }
    hpa
}

fn is_cpu(metric: &Value) -> bool {
    metric["type"] == "Resource" && metric.pointer("/resource/name").is_some_and(|name| name == "cpu")
}

fn cpu_utilization(percent: Value) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}})
}

fn current_cpu_utilization(percent: Value) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}})
}

fn take_list(fields: &mut Map<String, Value>, name: &str) -> Vec<Value> {
    match fields.remove(name) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// Removes the annotations that hold fields of v2, and the map if it is empty then.
fn take_annotations(hpa: &mut Value) -> Vec<(&'static str, String)> {
    let Some(metadata) = hpa.get_mut("metadata").and_then(Value::as_object_mut) else { return Vec::new() };
    let Some(all) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return Vec::new() };
    let take = |name: &'static str| match all.remove(name) {
        Some(Value::String(text)) => Some((name, text)),
        _ => None,
    };
    let taken = [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR].into_iter().filter_map(take).collect();
    if all.is_empty() {
        metadata.remove("annotations");
    }
    taken
}

/// Decodes an annotation. One that cannot be decoded counts as absent.
fn decoded<T: DeserializeOwned>(text: Option<&str>) -> Option<T> {
    serde_json::from_str(text?).ok()
}

fn encoded<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("annotation types are plain data")
}

fn plain<T: Serialize>(value: &T) -> Value {
    annotations::without_nulls(serde_json::to_value(value).expect("annotation types are plain data"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v1(annotations: Value, spec: Value) -> Value {
        json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "h", "annotations": annotations}, "spec": spec})
    }

    #[test]
    fn the_cpu_target_of_v1_is_a_metric_of_v2() {
        let v2 = to_v2(json!({"apiVersion": "autoscaling/v1", "metadata": {"name": "h"},
            "spec": {"maxReplicas": 9, "targetCPUUtilizationPercentage": 55}}));
        assert_eq!(
            v2,
            json!({"apiVersion": "autoscaling/v2", "metadata": {"name": "h"},
            "spec": {"maxReplicas": 9, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 55}}}]}})
        );
        let back = to_v1(v2);
        assert_eq!(back["spec"], json!({"maxReplicas": 9, "targetCPUUtilizationPercentage": 55}));
        assert_eq!(back["metadata"], json!({"name": "h"}));
    }

    #[test]
    fn without_any_metric_80_percent_of_cpu_is_the_aim() {
        let v2 = to_v2(v1(json!({}), json!({"maxReplicas": 1})));
        assert_eq!(v2.pointer("/spec/metrics/0/resource/target/averageUtilization"), Some(&json!(80)));
    }

    #[test]
    fn annotations_of_v1_are_fields_of_v2() {
        let v2 = to_v2(v1(
            json!({
                "kept": "1",
                METRICS: r#"[{"type": "Pods", "pods": {"metricName": "rps", "targetAverageValue": "5"}}]"#,
                BEHAVIOR: r#"{"ScaleDown": {"StabilizationWindowSeconds": 7, "Policies": [{"Type": "Pods", "Value": 1, "PeriodSeconds": 15}]}}"#,
            }),
            json!({"maxReplicas": 4, "targetCPUUtilizationPercentage": 40}),
        ));
        assert_eq!(v2["metadata"]["annotations"], json!({"kept": "1"}));
        assert_eq!(
            v2["spec"]["metrics"],
            json!([
                {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "5"}}},
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 40}}},
            ])
        );
        assert_eq!(
            v2["spec"]["behavior"],
            json!({"scaleDown": {
            "stabilizationWindowSeconds": 7, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}]}})
        );
        let back = to_v1(v2);
        let written = |name: &str| back["metadata"]["annotations"][name].as_str().unwrap_or("absent").to_owned();
        assert_eq!(written(METRICS), r#"[{"type":"Pods","pods":{"metricName":"rps","targetAverageValue":"5"}}]"#);
        assert_eq!(
            written(BEHAVIOR),
            r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":7,"SelectPolicy":null,"Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":15}],"Tolerance":null}}"#
        );
        assert_eq!(back["metadata"]["annotations"]["kept"], "1");
        assert_eq!(back["spec"], json!({"maxReplicas": 4, "targetCPUUtilizationPercentage": 40}));
    }

    #[test]
    fn every_kind_of_metric_survives_the_way_through_v1() {
        let metrics = json!([
            {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "500Mi"}}},
            {"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "1k"}}},
            {"type": "Object", "object": {"metric": {"name": "q"},
                "describedObject": {"kind": "Service", "name": "s", "apiVersion": "v1"}, "target": {"type": "Value", "value": "10"}}},
            {"type": "External", "external": {"metric": {"name": "lag", "selector": {"matchLabels": {"t": "1"}}},
                "target": {"type": "AverageValue", "averageValue": "30"}}},
            {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c",
                "target": {"type": "Utilization", "averageUtilization": 5}}},
            {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}},
        ]);
        let v2 = json!({"apiVersion": "autoscaling/v2", "metadata": {"name": "h"}, "spec": {"metrics": metrics}});
        let v1 = to_v1(v2.clone());
        assert_eq!(
            v1["metadata"]["annotations"][METRICS],
            r#"[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"500Mi"}},{"type":"Pods","pods":{"metricName":"rps","targetAverageValue":"1k"}},{"type":"Object","object":{"target":{"kind":"Service","name":"s","apiVersion":"v1"},"metricName":"q","targetValue":"10"}},{"type":"External","external":{"metricName":"lag","metricSelector":{"matchLabels":{"t":"1"}},"targetAverageValue":"30"}},{"type":"ContainerResource","containerResource":{"name":"cpu","targetAverageUtilization":5,"container":"c"}}]"#
        );
        assert_eq!(v1["spec"], json!({"targetCPUUtilizationPercentage": 70}));
        assert_eq!(to_v2(v1), v2);
    }

    #[test]
    fn status_travels_too() {
        let v2 = json!({"apiVersion": "autoscaling/v2", "metadata": {"name": "h"}, "spec": {"metrics": []},
            "status": {"desiredReplicas": 3, "currentReplicas": 2,
                "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": "20m", "averageUtilization": 10}}}],
                "conditions": [{"type": "AbleToScale", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z", "reason": "R", "message": "m"}]}});
        let v1 = to_v1(v2.clone());
        assert_eq!(
            v1["status"],
            json!({"desiredReplicas": 3, "currentReplicas": 2, "currentCPUUtilizationPercentage": 10})
        );
        assert_eq!(
            v1["metadata"]["annotations"][CURRENT_METRICS],
            r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":10,"currentAverageValue":"20m"}}]"#
        );
        assert_eq!(
            v1["metadata"]["annotations"][CONDITIONS],
            r#"[{"type":"AbleToScale","status":"True","lastTransitionTime":"2024-01-01T00:00:00Z","reason":"R","message":"m"}]"#
        );
        assert_eq!(to_v2(v1)["status"], v2["status"]);
        let empty = to_v1(json!({"metadata": {}, "status": {"desiredReplicas": 0, "currentMetrics": null}}));
        assert_eq!(empty["status"], json!({"desiredReplicas": 0, "currentReplicas": 0}));
        assert_eq!(to_v2(empty)["status"], json!({"desiredReplicas": 0, "currentMetrics": null}));
    }
}
