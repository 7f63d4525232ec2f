//! Defaults of horizontal pod autoscalers.
//!
//! Corresponds to pkg/apis/autoscaling/v1 and v2.

use super::DefaultValue::{Int, Of, Text};
use super::Members;
use super::Row::{self, Fix, In, InNew, Set};
use serde_json::{Value, json};

pub const V1: &[Row] = &[In("spec", &[Set("minReplicas", Int(1))]), Fix(cpu_without_other_metrics)];

/// Sets the CPU target of version 1, unless an annotation holds the metrics of version 2.
fn cpu_without_other_metrics(autoscaler: &mut Members) {
    let annotation = autoscaler.get("metadata").and_then(|metadata| metadata.pointer(METRICS_ANNOTATION));
    if annotation.is_none()
        && let Some(Value::Object(spec)) = autoscaler.get_mut("spec")
    {
        spec.entry("targetCPUUtilizationPercentage").or_insert(Value::from(80));
    }
}

const METRICS_ANNOTATION: &str = "/annotations/autoscaling.alpha.kubernetes.io~1metrics";

pub const V2: &[Row] = &[In(
    "spec",
    &[
        Set("minReplicas", Int(1)),
        Set("metrics", Of(cpu_at_four_fifths)),
        In(
            "behavior",
            &[
                InNew(
                    "scaleUp",
                    &[
                        Set("stabilizationWindowSeconds", Int(0)),
                        Set("selectPolicy", Text("Max")),
                        Set("policies", Of(double_or_four_pods)),
                    ],
                ),
                InNew("scaleDown", &[Set("selectPolicy", Text("Max")), Set("policies", Of(all_at_once))]),
            ],
        ),
    ],
)];

fn cpu_at_four_fifths(_: &Members) -> Option<Value> {
    let target = json!({"averageUtilization": 80, "type": "Utilization"});
    Some(json!([{"resource": {"name": "cpu", "target": target}, "type": "Resource"}]))
}

fn double_or_four_pods(_: &Members) -> Option<Value> {
    Some(json!([
        {"periodSeconds": 15, "type": "Pods", "value": 4},
        {"periodSeconds": 15, "type": "Percent", "value": 100},
    ]))
}

fn all_at_once(_: &Members) -> Option<Value> {
    Some(json!([{"periodSeconds": 15, "type": "Percent", "value": 100}]))
}
