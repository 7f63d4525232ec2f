//! Validates LimitRanges and ResourceQuotas: names of resources, bounds that agree with each other, scopes.
//!
//! Corresponds to ValidateLimitRange and ValidateResourceQuota of pkg/apis/core/validation.

use super::resource_names;
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors};
use proto::meta::names;
use proto::meta::quantity::Quantity;
use serde_json::{Value, json};
use std::collections::BTreeSet;

type Context<'a> = WriteContext<'a>;

fn amount(at: &At<'_>) -> Option<Quantity> {
    Quantity::try_from(at.value).ok()
}

pub fn limit_range(_context: &Context<'_>, range: &At<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for limit in range.down("spec.limits").items() {
        let kind = limit.field("type");
        let before = errors.len();
        kind.check(names::qualified_name, errors);
        let is_standard = ["Container", "Pod", "PersistentVolumeClaim"].contains(&kind.text());
        if errors.len() == before && !kind.text().contains('/') && !is_standard {
            errors.push(kind.invalid("must be a standard limit type or fully qualified"));
        }
        if !seen.insert(kind.text()) {
            errors.push(kind.duplicate());
        }
        limit_item(&limit, kind.text(), errors);
    }
}

const LIMIT_PARTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

fn limit_item(limit: &At<'_>, kind: &str, errors: &mut Errors) {
    let mut all = BTreeSet::new();
    for part in LIMIT_PARTS {
        let at = limit.field(part);
        if kind == "PersistentVolumeClaim" && part == "maxLimitRequestRatio" {
            check_storage_bounds(limit, errors);
        }
        if kind == "Pod" && part.starts_with("default") {
            if !at.is_empty() {
                errors.push(at.forbidden("may not be specified when `type` is 'Pod'"));
            }
            continue;
        }
        for (name, value) in at.entries() {
            limit_name(&value, name, kind, errors);
            all.insert(name);
        }
    }
    for name in all {
        limit_of_resource(limit, name, errors);
    }
}

fn check_storage_bounds(limit: &At<'_>, errors: &mut Errors) {
    if !["min", "max"].iter().any(|part| limit.field(part).key("storage").is_set()) {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(limit.shown_at(limit.path_of("limits")).required(why));
    }
}

fn limit_name(at: &At<'_>, name: &str, kind: &str, errors: &mut Errors) {
    match kind {
        "Pod" | "Container" => resource_names::check_container_name(at, name, errors),
        _ => {
            resource_names::check_name(at, name, errors);
        }
    }
}

/// Checks the bounds of one resource against each other, such as `min` against `max`.
fn limit_of_resource(limit: &At<'_>, name: &str, errors: &mut Errors) {
    let at = |part: &str| limit.field(part).key(name);
    let [max, min, default, request, ratio] = LIMIT_PARTS.map(|part| amount(&at(part)));
    let mut report = |part: &str, shown: &Quantity, why: String| {
        errors.push(at(part).invalid_as(&json!(shown.to_string()), why));
    };
    if let (Some(min), Some(max)) = (&min, &max)
        && min > max
    {
        report("min", min, format!("min value {min} is greater than max value {max}"));
    }
    if let (Some(request), Some(min)) = (&request, &min)
        && min > request
    {
        report("defaultRequest", request, format!("min value {min} is greater than default request value {request}"));
    }
    if let (Some(request), Some(max)) = (&request, &max)
        && request > max
    {
        report("defaultRequest", request, format!("default request value {request} is greater than max value {max}"));
    }
    if let (Some(request), Some(default)) = (&request, &default)
        && request > default
    {
        let why = format!("default request value {request} is greater than default limit value {default}");
        report("defaultRequest", request, why);
    }
    if let (Some(default), Some(min)) = (&default, &min)
        && min > default
    {
        report("default", min, format!("min value {min} is greater than default value {default}"));
    }
    if let (Some(default), Some(max)) = (&default, &max)
        && default > max
    {
        report("default", max, format!("default value {default} is greater than max value {max}"));
    }
    if let Some(ratio) = &ratio {
        if ratio.milli_value() < 1000 {
            report("maxLimitRequestRatio", ratio, format!("ratio {ratio} is less than 1"));
        }
        if let (Some(min), Some(max)) = (&min, &max) {
            let max_ratio = max.as_f64() / min.as_f64();
            if ratio.as_f64() > max_ratio {
                let why = format!("ratio {ratio} is greater than max/min = {max_ratio:.6}");
                report("maxLimitRequestRatio", ratio, why);
            }
        }
    }
    if let (Some(default), Some(request)) = (&default, &request)
        && !resource_names::may_overcommit(name)
        && default != request
    {
        let why = format!("default value {default} must equal to defaultRequest value {request} in {name}");
        report("defaultRequest", request, why);
    }
}

const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];
/// Scopes that compare a value. They allow every operator, the others `Exists` only.
const SCOPES_WITH_VALUES: &[&str] = &["PriorityClass", "VolumeAttributesClass"];
const COMPUTE: &[&str] = &["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory", "pods"];

/// Returns whether a quota with this scope may bound the resource.
fn applies_to(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "NotBestEffort" | "Terminating" | "NotTerminating" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            COMPUTE.contains(&resource)
        }
        "VolumeAttributesClass" => ["persistentvolumeclaims", "requests.storage"].contains(&resource),
        _ => true,
    }
}

/// Returns the number of bounded resources to which the scope does not apply.
fn count_unsupported(spec: &At<'_>, scope: &str) -> usize {
    let names = spec.field("hard").entries().map(|(name, _)| name);
    names.filter(|name| resource_names::is_quota(name) && !applies_to(scope, name)).count()
}

const CONFLICTS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

pub fn quota(_context: &Context<'_>, quota: &At<'_>, errors: &mut Errors) {
    let spec = quota.field("spec");
    quota_amounts(&spec.field("hard"), errors);
    quota_scopes(&spec, errors);
    quota_selector(&spec, errors);
}

fn quota_amounts(hard: &At<'_>, errors: &mut Errors) {
    for (name, at) in hard.entries() {
        resource_names::check_name(&at, name, errors);
        if !name.contains('/') && !resource_names::is_quota(name) {
            errors.push(at.invalid_as(&json!(name), "must be a standard resource for quota"));
        }
        resource_names::check_amount(&at, name, errors);
    }
}

fn quota_scopes(spec: &At<'_>, errors: &mut Errors) {
    let scopes = spec.field("scopes");
    for scope in scopes.items() {
        if !SCOPES.contains(&scope.text()) {
            errors.push(scopes.invalid("unsupported scope"));
        }
        for _ in 0..count_unsupported(spec, scope.text()) {
            errors.push(scopes.invalid("unsupported scope applied to resource"));
        }
    }
    let named: Vec<&str> = scopes.items().map(|scope| scope.text()).collect();
    for _ in CONFLICTS.iter().filter(|pair| pair.iter().all(|scope| named.contains(scope))) {
        errors.push(scopes.invalid("conflicting scopes"));
    }
}

/// Checks the scope selector. Kubernetes leaves the index out of the paths of its requirements.
fn quota_selector(spec: &At<'_>, errors: &mut Errors) {
    let list = spec.down("scopeSelector.matchExpressions");
    for requirement in list.items() {
        let at = |field: &str| At::new(list.path_of(field), requirement.value.get(field).unwrap_or(&Value::Null));
        let (scope, operator, values) = (at("scopeName"), at("operator"), at("values"));
        if !SCOPES.contains(&scope.text()) {
            errors.push(scope.invalid_text("unsupported scope"));
        }
        for _ in 0..count_unsupported(spec, scope.text()) {
            errors.push(list.invalid_shown(selector_in_go(&list), "unsupported scope applied to resource"));
        }
        let by_presence = SCOPES.contains(&scope.text()) && !SCOPES_WITH_VALUES.contains(&scope.text());
        if by_presence && operator.text() != "Exists" {
            errors.push(operator.invalid_text(
                "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, \
                 ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
            ));
        }
        match operator.text() {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.push(values.required(why));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.push(values.invalid(why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.push(operator.invalid_text("not a valid selector operator")),
        }
    }
    let named: Vec<&str> =
        list.items().map(|requirement| requirement.value["scopeName"].as_str().unwrap_or("")).collect();
    for _ in CONFLICTS.iter().filter(|pair| pair.iter().all(|scope| named.contains(scope))) {
        errors.push(list.invalid_as(spec.field("scopes").value, "conflicting scopes"));
    }
}

/// Returns the selector as Kubernetes' errors show it, with the names and the order of its Go fields.
fn selector_in_go(list: &At<'_>) -> String {
    let requirement = |at: At<'_>| {
        let [scope, operator, values] = ["scopeName", "operator", "values"].map(|field| at.field(field).value);
        format!("{{\"ScopeName\":{scope},\"Operator\":{operator},\"Values\":{values}}}")
    };
    let all: Vec<String> = list.items().map(requirement).collect();
    format!("{{\"MatchExpressions\":[{}]}}", all.join(","))
}

pub fn quota_status(_context: &Context<'_>, quota: &At<'_>, _old: &At<'_>, errors: &mut Errors) {
    quota_amounts(&quota.down("status.hard"), errors);
    quota_amounts(&quota.down("status.used"), errors);
}

pub fn quota_update(_context: &Context<'_>, quota: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let scopes = |quota: &At<'_>| -> BTreeSet<String> {
        quota.down("spec.scopes").items().map(|scope| scope.text().to_owned()).collect()
    };
    if scopes(quota) != scopes(old) {
        errors.push(quota.down("spec.scopes").invalid(super::at::IMMUTABLE));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update, update_of};
    use serde_json::{Value, json};

    fn limits(items: Value) -> Vec<String> {
        create(json!({"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": items}}))
    }

    #[test]
    fn a_limit_range_may_have_any_subset_of_bounds() {
        let container = json!({
            "type": "Container", "default": {"cpu": "500m", "memory": "256Mi"}, "defaultRequest": {"cpu": "100m"},
        });
        let pod = json!({
            "type": "Pod", "max": {"cpu": "1"}, "min": {"memory": "64Mi"}, "maxLimitRequestRatio": {"memory": "2"},
        });
        assert_eq!(limits(json!([container, pod])), [""; 0]);
    }

    #[test]
    fn names_and_bounds_of_a_limit_range_are_checked() {
        let container = |parts: Value| {
            let mut item = json!({"type": "Container"});
            item.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
            limits(json!([item]))
        };
        assert_eq!(
            container(json!({"maxLimitRequestRatio": {"gadgets": "2"}})),
            [
                "spec.limits[0].maxLimitRequestRatio[gadgets]: Invalid value: \"gadgets\": must be a standard resource type or fully qualified",
                "spec.limits[0].maxLimitRequestRatio[gadgets]: Invalid value: \"gadgets\": must be a standard resource for containers",
            ]
        );
        assert_eq!(
            container(json!({"default": {"x.test/gpu": "2"}, "defaultRequest": {"x.test/gpu": "1"}})),
            ["spec.limits[0].defaultRequest[x.test/gpu]: Invalid value: \"1\": default value 2 must equal to \
                 defaultRequest value 1 in x.test/gpu"]
        );
        assert_eq!(
            limits(json!([{"type": "PersistentVolumeClaim", "maxLimitRequestRatio": {"gadgets": "2"}}])),
            [
                "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but \
                 neither was provided",
                "spec.limits[0].maxLimitRequestRatio[gadgets]: Invalid value: \"gadgets\": must be a standard resource \
                 type or fully qualified",
            ]
        );
        let word = "must be a standard limit type or fully qualified";
        assert_eq!(limits(json!([{"type": "Odd"}])), [format!("spec.limits[0].type: Invalid value: \"Odd\": {word}")]);
    }

    fn quota(spec: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "spec": spec})
    }

    #[test]
    fn scopes_apply_to_the_bounded_resources() {
        let misfit = "unsupported scope applied to resource";
        assert_eq!(
            create(quota(json!({"hard": {"secrets": "1", "cpu": "1"}, "scopes": ["Terminating", "BestEffort"]}))),
            [
                format!("spec.scopes: Invalid value: [\"Terminating\",\"BestEffort\"]: {misfit}"),
                format!("spec.scopes: Invalid value: [\"Terminating\",\"BestEffort\"]: {misfit}"),
                format!("spec.scopes: Invalid value: [\"Terminating\",\"BestEffort\"]: {misfit}"),
            ]
        );
        let selector = |requirements: Value| {
            create(quota(json!({"hard": {"secrets": "1"}, "scopeSelector": {"matchExpressions": requirements}})))
        };
        assert_eq!(
            selector(json!([{"scopeName": "PriorityClass", "operator": "Exists", "values": ["a"]}])),
            [
                format!(
                    "spec.scopeSelector.matchExpressions: Invalid value: {{\"MatchExpressions\":[{{\"ScopeName\":\"PriorityClass\",\
                     \"Operator\":\"Exists\",\"Values\":[\"a\"]}}]}}: {misfit}"
                ),
                "spec.scopeSelector.matchExpressions.values: Invalid value: [\"a\"]: must be no value when `operator` is \
                 'Exist' or 'DoesNotExist' for scope selector"
                    .to_owned(),
            ]
        );
        let both = create(quota(json!({"scopeSelector": {"matchExpressions": [
            {"scopeName": "BestEffort", "operator": "Exists"}, {"scopeName": "NotBestEffort", "operator": "Exists"},
        ]}})));
        assert_eq!(both, ["spec.scopeSelector.matchExpressions: Invalid value: null: conflicting scopes"]);
    }

    /// A quota may bound requests for huge pages, but not together with a scope that selects pods.
    #[test]
    fn a_quota_may_bound_huge_pages() {
        let hard = json!({"hugepages-2Mi": "4Mi", "requests.hugepages-1Gi": "1Gi"});
        assert_eq!(create(quota(json!({"hard": hard}))), [""; 0]);
        let misfit = "spec.scopes: Invalid value: [\"NotTerminating\"]: unsupported scope applied to resource";
        assert_eq!(create(quota(json!({"hard": hard, "scopes": ["NotTerminating"]}))), [misfit; 2]);
        assert_eq!(limits(json!([{"type": "x.test/odd", "max": {"requests.hugepages-1Gi": "1Gi"}}])), [""; 0]);
    }

    #[test]
    fn scopes_are_immutable_and_usage_is_checked() {
        let with = |scope: &str| quota(json!({"hard": {"pods": "1"}, "scopes": [scope]}));
        assert_eq!(
            update(with("Terminating"), with("NotTerminating")),
            ["spec.scopes: Invalid value: [\"NotTerminating\"]: field is immutable"]
        );
        let mut used = with("Terminating");
        used["status"] = json!({"hard": {"gadgets": "1"}, "used": {"pods": "-1"}});
        assert_eq!(
            update_of("status", with("Terminating"), used),
            [
                "status.hard[gadgets]: Invalid value: \"gadgets\": must be a standard resource type or fully qualified",
                "status.hard[gadgets]: Invalid value: \"gadgets\": must be a standard resource for quota",
                "status.used[pods]: Invalid value: \"-1\": must be greater than or equal to 0",
            ]
        );
    }
}
