//! Error states of autoscalers and disruption budgets.

use super::ErrorState;
use crate::user::deployment;
use serde_json::{Value, json};

pub const STATES: &[ErrorState] = &[
    ErrorState {
        name: "no-scale-target",
        objects: no_scale_target,
        told: &["HorizontalPodAutoscaler FailedGetScale: ", "HorizontalPodAutoscaler AbleToScale=False FailedGetScale"],
        requests_per_minute: 12,
        cured_without: &[],
    },
    ErrorState {
        name: "two-autoscalers",
        objects: two_autoscalers,
        told: &[
            "HorizontalPodAutoscaler AmbiguousSelector: ",
            "HorizontalPodAutoscaler ScalingActive=False AmbiguousSelector",
        ],
        requests_per_minute: 16,
        cured_without: &[],
    },
    ErrorState {
        name: "no-metrics-server",
        objects: no_metrics_server,
        told: &[
            "HorizontalPodAutoscaler FailedGetResourceMetric: ",
            "HorizontalPodAutoscaler ScalingActive=False FailedGetResourceMetric",
        ],
        requests_per_minute: 16,
        cured_without: &[],
    },
    unusable_metric("metric-nan", || on_metric("no-number")),
    unusable_metric("metric-negative", || on_metric("negative")),
    unusable_metric("metric-old", || on_metric("old")),
    unusable_metric("metric-missing", || on_metric("missing")),
    ErrorState {
        name: "budget-of-nobody",
        objects: budget_of_nobody,
        told: &["PodDisruptionBudget UnmanagedPods: ", "PodDisruptionBudget DisruptionAllowed=False InsufficientPods"],
        requests_per_minute: 1,
        cured_without: &[],
    },
];

/// Returns the state of an autoscaler whose external metric cannot be used.
const fn unusable_metric(name: &'static str, objects: fn() -> Vec<Value>) -> ErrorState {
    ErrorState {
        name,
        objects,
        told: &[
            "HorizontalPodAutoscaler FailedGetExternalMetric: ",
            "HorizontalPodAutoscaler ScalingActive=False FailedGetExternalMetric",
        ],
        requests_per_minute: 16,
        cured_without: &[],
    }
}

/// Returns an autoscaler of the Deployment `web`.
fn autoscaler(name: &str, metric: &Value) -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1, "maxReplicas": 5, "metrics": [metric],
        },
    })
}

fn cpu() -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": 50});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

fn on_metric(name: &str) -> Vec<Value> {
    let external = json!({"metric": {"name": name}, "target": {"type": "Value", "value": "10"}});
    let metric = json!({"type": "External", "external": external});
    vec![deployment("web", 2, "web:1"), autoscaler("web", &metric)]
}

fn no_scale_target() -> Vec<Value> {
    vec![autoscaler("web", &cpu())]
}

fn two_autoscalers() -> Vec<Value> {
    vec![deployment("web", 2, "web:1"), autoscaler("one", &cpu()), autoscaler("two", &cpu())]
}

fn no_metrics_server() -> Vec<Value> {
    vec![deployment("web", 2, "web:1"), autoscaler("web", &cpu())]
}

/// A budget that counts in percent needs controllers, and this pod has none.
fn budget_of_nobody() -> Vec<Value> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "web:1"}]},
    });
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "budget"},
        "spec": {"maxUnavailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
    });
    vec![pod, budget]
}
