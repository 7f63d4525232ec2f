//! Horizontal pod autoscalers, and the budgets that bound disruptions.
//!
//! Corresponds to pkg/apis/autoscaling/validation and pkg/apis/policy/validation.

use super::at::{At, Errors};
use super::{int_or_percent, selector};
use crate::registry::strategy::WriteContext;
use proto::meta::names;
use proto::meta::quantity::Quantity;
use proto::meta::status::FieldError;
use serde_json::{Value, json};

type Context<'a> = WriteContext<'a>;

const METRICS: &[(&str, &str)] = &[
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("External", "external"),
    ("ContainerResource", "containerResource"),
];
const METRIC_TYPES: &[&str] = &["ContainerResource", "External", "Object", "Pods", "Resource"];
const MAX_STABILIZATION_S: i64 = 3600;
const MAX_PERIOD_S: i64 = 1800;

pub fn autoscaler(_context: &Context<'_>, autoscaler: &At<'_>, errors: &mut Errors) {
    let spec = autoscaler.field("spec");
    let (min, max) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    if min.integer().is_some_and(|min| min < 1) {
        errors.push(min.invalid("must be greater than or equal to 1"));
    }
    let most = max.integer().unwrap_or(0);
    if most < 1 {
        errors.push(max.invalid_as(&json!(most), "must be greater than 0"));
    }
    if min.integer().is_some_and(|min| most < min) {
        errors.push(max.invalid_as(&json!(most), "must be greater than or equal to `minReplicas`"));
    }
    target(&spec.field("scaleTargetRef"), errors);
    spec.field("metrics").items().for_each(|metric| self::metric(&metric, errors));
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
    if kind.is_empty() {
        errors.push(kind.required("must specify a metric source type"));
    } else if !METRIC_TYPES.contains(&kind.text()) {
        errors.push(kind.not_supported(METRIC_TYPES));
    }
    let mut found = 0;
    for (name, field) in METRICS {
        let source = metric.field(field);
        if !source.is_set() {
            continue;
        }
        found += 1;
        if found > 1 {
            errors.push(source.forbidden("must populate only one metric source"));
            continue;
        }
        metric_source(name, &source, errors);
        if !kind.is_empty() && kind.text() != *name {
            errors.push(source.forbidden("must match `type`"));
        }
    }
    if let Some((_, field)) = METRICS.iter().find(|(name, _)| *name == kind.text())
        && !metric.field(field).is_set()
    {
        errors.push(metric.field(field).required("must populate information for the given metric source"));
    }
}

fn metric_source(kind: &str, source: &At<'_>, errors: &mut Errors) {
    let wanted = source.field("target");
    match kind {
        "Resource" | "ContainerResource" => {
            if source.field("name").is_empty() {
                errors.push(source.field("name").required("must specify a resource name"));
            }
            if kind == "ContainerResource" && source.field("container").is_empty() {
                errors.push(source.field("container").required("must specify a container"));
            }
            metric_target(&wanted, errors);
            let (use_, average) = (wanted.field("averageUtilization"), wanted.field("averageValue"));
            if !use_.is_set() && !average.is_set() {
                let why = "must set either a target raw value or a target utilization";
                errors.push(use_.required(why));
            }
            if use_.is_set() && average.is_set() {
                errors.push(average.forbidden("may not set both a target raw value and a target utilization"));
            }
        }
        _ => {
            if kind == "Object" {
                target(&source.field("describedObject"), errors);
            }
            let identifier = source.field("metric");
            identifier.field("name").check_required(names::path_segment, errors);
            selector::check(&identifier.field("selector"), errors);
            metric_target(&wanted, errors);
            let (value, average) = (wanted.field("value"), wanted.field("averageValue"));
            if kind == "Pods" && !average.is_set() {
                errors.push(average.required("must specify a positive target averageValue"));
            } else if kind != "Pods" && !value.is_set() && !average.is_set() {
                errors.push(average.required("must set either a target value or averageValue"));
            }
        }
    }
}

fn metric_target(target: &At<'_>, errors: &mut Errors) {
    let kind = target.field("type");
    if kind.is_empty() {
        errors.push(kind.required("must specify a metric target type"));
    } else if !["Utilization", "Value", "AverageValue"].contains(&kind.text()) {
        errors.push(kind.invalid("must be either Utilization, Value, or AverageValue"));
    }
    for field in ["value", "averageValue"] {
        let at = target.field(field);
        if at.is_set() && Quantity::try_from(at.value).is_ok_and(|amount| amount.signum() != 1) {
            errors.push(at.invalid("must be positive"));
        }
    }
    let use_ = target.field("averageUtilization");
    if use_.integer().is_some_and(|percent| percent < 1) {
        errors.push(use_.invalid("must be greater than 0"));
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
        if !["Pods", "Percent"].contains(&policy.field("type").text()) {
            errors.push(policy.field("type").not_supported(&["Percent", "Pods"]));
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
    for count in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        status.field(count).check_non_negative(errors);
    }
    for condition in status.field("conditions").items() {
        condition.field("type").check(names::qualified_name, errors);
        let known = ["True", "False", "Unknown"];
        if !known.contains(&condition.field("status").text()) {
            errors.push(condition.field("status").not_supported(&["False", "True", "Unknown"]));
        }
        if condition.field("reason").value == &Value::Null || condition.field("reason").is_empty() {
            errors.push(condition.field("reason").required("must be set"));
        }
    }
}
