//! Validates HorizontalPodAutoscalers and PodDisruptionBudgets.
//!
//! Corresponds to pkg/apis/autoscaling/validation and pkg/apis/policy/validation.

use super::{conditions, int_or_percent, selector};
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors};
use proto::meta::names;
use proto::meta::quantity::Quantity;
use proto::meta::status::FieldError;
use serde_json::json;

type Context<'a> = WriteContext<'a>;

/// Types of metrics and the field of each, in the order in which Kubernetes checks them.
const METRICS: &[(&str, &str)] = &[
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const METRIC_TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];
const MAX_STABILIZATION_S: i64 = 3600;
const MAX_PERIOD_S: i64 = 1800;

pub fn autoscaler(context: &Context<'_>, autoscaler: &At<'_>, errors: &mut Errors) {
    let spec = autoscaler.field("spec");
    let (min, max) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    let least = if context.gates.is_on("HPAScaleToZero") { 0 } else { 1 };
    if min.integer().is_some_and(|min| min < least) {
        errors.push(min.invalid(format!("must be greater than or equal to {least}")));
    }
    let max_replicas = max.integer().unwrap_or(0);
    if max_replicas < 1 {
        errors.push(max.invalid_as(&json!(max_replicas), "must be greater than 0"));
    }
    if min.integer().is_some_and(|min| max_replicas < min) {
        errors.push(max.invalid_as(&json!(max_replicas), "must be greater than or equal to `minReplicas`"));
    }
    target(&spec.field("scaleTargetRef"), errors);
    let metrics = spec.field("metrics");
    metrics.items().for_each(|metric| self::metric(&metric, errors));
    // Without pods there is no metric of pods that could ask for some.
    let lives_without_pods = |metric: At<'_>| metric.field("object").is_set() || metric.field("external").is_set();
    if min.integer() == Some(0) && least == 0 && !metrics.items().any(lives_without_pods) {
        let what = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(metrics.forbidden(what));
    }
    let behavior = spec.field("behavior");
    for direction in ["scaleUp", "scaleDown"] {
        scaling_rules(&behavior.field(direction), errors);
    }
}

fn target(target: &At<'_>, errors: &mut Errors) {
    target.field("kind").check_required(names::path_segment, errors);
    target.field("name").check_required(names::path_segment, errors);
    let version = target.field("apiVersion");
    let kind = target.field("kind").text();
    let in_core = version.text() == "v1" && kind == "ReplicationController";
    if !in_core && !version.text().contains('/') && version.text() != "v1" {
        errors.push(version.invalid_text("apiVersion must specify API group"));
    }
}

fn metric(metric: &At<'_>, errors: &mut Errors) {
    let kind = metric.field("type");
    let unsupported = || At::new(kind.path.clone(), &json!(kind.text())).not_supported(METRIC_TYPES);
    if kind.is_empty() {
        errors.push(kind.required("must specify a metric source type"));
    }
    let expected = METRICS.iter().find(|(name, _)| *name == kind.text()).map(|(_, field)| *field);
    if expected.is_none() {
        errors.push(unsupported());
    }
    let found: Vec<&(&str, &str)> = METRICS.iter().filter(|(_, field)| metric.field(field).is_set()).collect();
    if let Some((name, field)) = found.first() {
        metric_source(name, &metric.field(field), errors);
    }
    match expected {
        Some(field) if !metric.field(field).is_set() => {
            errors.push(metric.field(field).required("must populate information for the given metric source"));
        }
        Some(_) => {}
        None => errors.push(unsupported()),
    }
    if found.len() != 1 {
        for (_, field) in found.iter().filter(|(_, field)| Some(*field) != expected) {
            errors.push(metric.field(field).forbidden("must populate the given metric source only"));
        }
    }
}

fn metric_source(kind: &str, source: &At<'_>, errors: &mut Errors) {
    let wanted = source.field("target");
    let [value, average, utilization] =
        ["value", "averageValue", "averageUtilization"].map(|field| wanted.field(field));
    match kind {
        "Resource" | "ContainerResource" => {
            if source.field("name").is_empty() {
                errors.push(source.field("name").required("must specify a resource name"));
            }
            if kind == "ContainerResource" && source.field("container").is_empty() {
                errors.push(source.field("container").required("must specify a container"));
            }
            metric_target(&wanted, errors);
            if !utilization.is_set() && !average.is_set() {
                errors.push(utilization.required("must set either a target raw value or a target utilization"));
            }
            if utilization.is_set() && average.is_set() {
                errors.push(average.forbidden("may not set both a target raw value and a target utilization"));
            }
            return;
        }
        "Object" => target(&source.field("describedObject"), errors),
        _ => {}
    }
    let identifier = source.field("metric");
    if identifier.field("name").is_empty() {
        errors.push(identifier.field("name").required("must specify a metric name"));
    } else {
        identifier.field("name").check(names::path_segment, errors);
    }
    selector::check(&identifier.field("selector"), errors);
    metric_target(&wanted, errors);
    let is_positive = Quantity::try_from(average.value).is_ok_and(|amount| amount.signum() == 1);
    match kind {
        "Pods" if !is_positive => errors.push(average.required("must specify a positive target averageValue")),
        "Object" if !value.is_set() && !average.is_set() => {
            errors.push(average.required("must set either a target value or averageValue"));
        }
        "External" if !value.is_set() && !average.is_set() => {
            errors.push(average.required("must set either a target value for metric or a per-pod target"));
        }
        "External" if value.is_set() && average.is_set() => {
            errors.push(value.forbidden("may not set both a target value for metric and a per-pod target"));
        }
        _ => {}
    }
}

fn metric_target(target: &At<'_>, errors: &mut Errors) {
    let kind = target.field("type");
    if kind.is_empty() {
        errors.push(kind.required("must specify a metric target type"));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind.text()) {
        errors.push(kind.invalid_text("must be either Utilization, Value, or AverageValue"));
    }
    for field in ["value", "averageValue"] {
        let at = target.field(field);
        if at.is_set() && Quantity::try_from(at.value).is_ok_and(|amount| amount.signum() != 1) {
            errors.push(at.invalid("must be positive"));
        }
    }
    let utilization = target.field("averageUtilization");
    if utilization.integer().is_some_and(|percent| percent < 1) {
        errors.push(utilization.invalid("must be greater than 0"));
    }
}

fn scaling_rules(rules: &At<'_>, errors: &mut Errors) {
    if !rules.is_set() {
        return;
    }
    let window = rules.field("stabilizationWindowSeconds");
    if window.integer().is_some_and(|s| s < 0) {
        errors.push(window.invalid("must be greater than or equal to zero"));
    }
    if window.integer().is_some_and(|s| s > MAX_STABILIZATION_S) {
        errors.push(window.invalid(format!("must be less than or equal to {MAX_STABILIZATION_S}")));
    }
    rules.field("selectPolicy").check_optional_enum(&["Disabled", "Max", "Min"], errors);
    let policies = rules.field("policies");
    if policies.is_empty() {
        errors.push(policies.required("must specify at least one Policy"));
    }
    for policy in policies.items() {
        let kind = policy.field("type");
        if !["Pods", "Percent"].contains(&kind.text()) {
            errors.push(At::new(kind.path.clone(), &json!(kind.text())).not_supported(&["Percent", "Pods"]));
        }
        for field in ["value", "periodSeconds"] {
            let at = policy.field(field);
            if at.integer().unwrap_or(0) <= 0 {
                errors.push(at.invalid_as(&json!(at.integer().unwrap_or(0)), "must be greater than zero"));
            }
        }
        let period = policy.field("periodSeconds");
        if period.integer().is_some_and(|s| s > MAX_PERIOD_S) {
            errors.push(period.invalid(format!("must be less than or equal to {MAX_PERIOD_S}")));
        }
    }
    let tolerance = rules.field("tolerance");
    if let Ok(amount) = Quantity::try_from(tolerance.value)
        && amount.signum() < 0
    {
        errors.push(tolerance.invalid_as(&json!(amount.to_string()), "must be greater than or equal to 0"));
    }
}

pub fn autoscaler_status(_context: &Context<'_>, autoscaler: &At<'_>, _old: &At<'_>, errors: &mut Errors) {
    for count in ["currentReplicas", "desiredReplicas"] {
        autoscaler.field("status").field(count).check_non_negative(errors);
    }
}

pub fn budget(_context: &Context<'_>, budget: &At<'_>, errors: &mut Errors) {
    let spec = budget.field("spec");
    let bounds = ["minAvailable", "maxUnavailable"].map(|field| spec.field(field));
    if bounds.iter().all(At::is_set) {
        let field = |name: &str| spec.field(name).value.clone();
        let shown = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
            field("minAvailable"),
            field("selector"),
            field("maxUnavailable"),
            field("unhealthyPodEvictionPolicy")
        );
        errors.push(FieldError {
            field: spec.path.clone(),
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {shown}: minAvailable and maxUnavailable cannot be both set"),
        });
    }
    for bound in bounds.iter().filter(|bound| bound.is_set()) {
        int_or_percent::check(bound, errors);
        int_or_percent::check_at_most_100_percent(bound, errors);
    }
    selector::check(&spec.field("selector"), errors);
    let policy = spec.field("unhealthyPodEvictionPolicy");
    policy.check_optional_enum(&["AlwaysAllow", "IfHealthyBudget"], errors);
}

pub fn budget_status(_context: &Context<'_>, budget: &At<'_>, _old: &At<'_>, errors: &mut Errors) {
    let status = budget.field("status");
    conditions::check(&status.field("conditions"), errors);
    for count in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        status.field(count).check_non_negative(errors);
    }
}

#[cfg(test)]
mod tests {
    use crate::gates::Gates;
    use crate::testing::{create, create_with};
    use serde_json::{Value, json};

    #[test]
    fn a_gate_allows_to_shrink_to_nothing() {
        let autoscaler = |min: i32, metric: Value| {
            let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
            json!({
                "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
                "spec": {"minReplicas": min, "maxReplicas": 2, "scaleTargetRef": target, "metrics": [metric]},
            })
        };
        let average = json!({"type": "AverageValue", "averageValue": "1"});
        let external = json!({"type": "External", "external": {"metric": {"name": "m"}, "target": average}});
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": average}});
        let gates = || Gates::with("HPAScaleToZero=true");
        let nothing: [&str; 0] = [];
        assert_eq!(create_with(gates(), autoscaler(0, external.clone())), nothing);
        assert_eq!(
            create_with(gates(), autoscaler(-1, external.clone())),
            ["spec.minReplicas: Invalid value: -1: must be greater than or equal to 0"]
        );
        assert_eq!(
            create_with(gates(), autoscaler(0, cpu)),
            [
                "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas"
            ]
        );
        assert_eq!(
            create(autoscaler(0, external)),
            ["spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"]
        );
    }

    fn autoscaler(metric: Value) -> Vec<String> {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
        create(json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "spec": {"maxReplicas": 2, "scaleTargetRef": target, "metrics": [metric]},
        }))
    }

    #[test]
    fn a_metric_has_the_source_that_its_type_names() {
        let at = "spec.metrics[0]";
        let types = "supported values: \"ContainerResource\", \"External\", \"Object\", \"Pods\", \"Resource\"";
        let average = json!({"type": "AverageValue", "averageValue": "1"});
        let cases = [
            (
                json!({"type": "Odd"}),
                vec![
                    format!("{at}.type: Unsupported value: \"Odd\": {types}"),
                    format!("{at}.type: Unsupported value: \"Odd\": {types}"),
                ],
            ),
            (
                json!({"type": "Pods", "pods": {"metric": {"name": ""}, "target": {"type": "Odd"}}}),
                vec![
                    format!("{at}.pods.metric.name: Required value: must specify a metric name"),
                    format!(
                        "{at}.pods.target.type: Invalid value: \"Odd\": must be either Utilization, Value, or AverageValue"
                    ),
                    format!(
                        "{at}.pods.target.averageValue: Required value: must specify a positive target averageValue"
                    ),
                ],
            ),
            (
                json!({"type": "Resource", "external": {"metric": {"name": "m"}, "target": {"type": "Value", "value": "1", "averageValue": "1"}}}),
                vec![
                    format!(
                        "{at}.external.target.value: Forbidden: may not set both a target value for metric and a per-pod target"
                    ),
                    format!("{at}.resource: Required value: must populate information for the given metric source"),
                ],
            ),
            (
                json!({"type": "Pods", "pods": {"metric": {"name": "m"}, "target": average}, "resource": {"name": "cpu", "target": average}}),
                vec![format!("{at}.resource: Forbidden: must populate the given metric source only")],
            ),
        ];
        for (metric, expected) in cases {
            assert_eq!(autoscaler(metric.clone()), expected, "{metric}");
        }
    }
}
