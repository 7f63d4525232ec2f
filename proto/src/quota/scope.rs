//! Scopes: the pods to which a quota applies.
//!
//! Corresponds to podMatchesScopeFunc of pkg/quota/v1/evaluator/core.

use super::pod_resources::of_pod;
use crate::fields::{items, text};
use serde_json::Value;

/// One scope of a quota (ScopedResourceSelectorRequirement).
#[derive(Clone, Copy, Debug)]
pub struct Selector<'a> {
    pub scope: &'a str,
    pub operator: &'a str,
    expression: Option<&'a Value>,
}

impl<'a> Selector<'a> {
    /// Reads `{scopeName, operator, values}`.
    pub fn read(expression: &'a Value) -> Self {
        let (scope, operator) = (text(expression, "/scopeName"), text(expression, "/operator"));
        Self { scope, operator, expression: Some(expression) }
    }

    pub fn values(&self) -> impl Iterator<Item = &'a str> {
        self.expression.into_iter().flat_map(|e| items(e, "/values")).filter_map(Value::as_str)
    }

    pub fn selects(&self, pod_spec: &Value) -> bool {
        in_scope(pod_spec, self)
    }
}

/// Returns the scopes of a quota.
pub fn selectors(quota: &Value) -> impl Iterator<Item = Selector<'_>> {
    let plain = items(quota, "/spec/scopes").filter_map(Value::as_str);
    let plain = plain.map(|scope| Selector { scope, operator: "Exists", expression: None });
    plain.chain(items(quota, "/spec/scopeSelector/matchExpressions").map(Selector::read))
}

/// Returns whether an object is in every scope of a quota. A quota with scopes applies to pods alone.
pub fn matches(quota: &Value, is_pod: bool, object: &Value) -> bool {
    selectors(quota).all(|selector| is_pod && selector.selects(&object["spec"]))
}

fn in_scope(spec: &Value, selector: &Selector<'_>) -> bool {
    let has_deadline = spec["activeDeadlineSeconds"].as_i64().is_some_and(|s| s >= 0);
    match selector.scope {
        "Terminating" => has_deadline,
        "NotTerminating" => !has_deadline,
        "BestEffort" => is_best_effort(spec),
        "NotBestEffort" => !is_best_effort(spec),
        "CrossNamespacePodAffinity" => reaches_other_namespaces(spec),
        "PriorityClass" => {
            let class = text(spec, "/priorityClassName");
            let is_listed = selector.values().any(|value| value == class);
            match selector.operator {
                "In" => !class.is_empty() && is_listed,
                "NotIn" => !is_listed,
                "DoesNotExist" => class.is_empty(),
                _ => !class.is_empty(),
            }
        }
        _ => false,
    }
}

/// Returns whether a pod has neither requests nor limits for CPU and memory: the class `BestEffort`.
pub fn is_best_effort(spec: &Value) -> bool {
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
