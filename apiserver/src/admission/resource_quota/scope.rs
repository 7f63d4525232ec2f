//! Which pods a quota is for: its scopes.
//!
//! Corresponds to podMatchesScopeFunc of pkg/quota/v1/evaluator/core.

use crate::admission::pod_parts::{items, text};
use crate::admission::pod_resources::of_pod;
use serde_json::Value;

/// Whether every scope of a quota holds for an object. Only pods have scopes: a quota with one is for nothing else.
pub fn matches(quota: &Value, is_pod: bool, object: &Value) -> bool {
    let plain = items(quota, "/spec/scopes").map(|scope| (scope.as_str().unwrap_or_default(), "Exists", None));
    let selected = items(quota, "/spec/scopeSelector/matchExpressions")
        .map(|e| (text(e, "/scopeName"), text(e, "/operator"), Some(e)));
    plain
        .chain(selected)
        .all(|(scope, operator, expression)| is_pod && in_scope(&object["spec"], scope, operator, expression))
}

fn in_scope(spec: &Value, scope: &str, operator: &str, expression: Option<&Value>) -> bool {
    let has_deadline = spec["activeDeadlineSeconds"].as_i64().is_some_and(|s| s >= 0);
    match scope {
        "Terminating" => has_deadline,
        "NotTerminating" => !has_deadline,
        "BestEffort" => is_best_effort(spec),
        "NotBestEffort" => !is_best_effort(spec),
        "CrossNamespacePodAffinity" => reaches_other_namespaces(spec),
        "PriorityClass" => {
            let class = text(spec, "/priorityClassName");
            let is_listed = expression.is_some_and(|e| items(e, "/values").any(|value| value == class));
            match operator {
                "In" => !class.is_empty() && is_listed,
                "NotIn" => !is_listed,
                "DoesNotExist" => class.is_empty(),
                _ => !class.is_empty(),
            }
        }
        _ => false,
    }
}

fn is_best_effort(spec: &Value) -> bool {
    let asks = |which: &str| {
        of_pod(spec, which)
            .iter()
            .any(|(name, quantity)| matches!(name.as_str(), "cpu" | "memory") && !quantity.is_zero())
    };
    !asks("requests") && !asks("limits")
}

fn reaches_other_namespaces(spec: &Value) -> bool {
    let reaches = |term: &Value| {
        items(term, "/namespaces").next().is_some() || term.get("namespaceSelector").is_some_and(|s| !s.is_null())
    };
    ["/affinity/podAffinity", "/affinity/podAntiAffinity"].iter().any(|kind| {
        let required = format!("{kind}/requiredDuringSchedulingIgnoredDuringExecution");
        let preferred = format!("{kind}/preferredDuringSchedulingIgnoredDuringExecution");
        items(spec, &required).any(reaches) || items(spec, &preferred).any(|term| reaches(&term["podAffinityTerm"]))
    })
}
