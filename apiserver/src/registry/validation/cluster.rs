//! Nodes, namespaces, limits and quotas, classes, leases and events.
//!
//! Corresponds to pkg/apis/core/validation and the validation of scheduling, node, coordination and events.

use super::at::{At, Errors};
use super::object_meta::check_qualified_or_standard;
use super::pod::resources;
use super::pod::tolerations;
use crate::registry::strategy::WriteContext;
use ipnet::IpNet;
use proto::meta::names;
use proto::meta::quantity::Quantity;
use proto::meta::status::FieldError;
use proto::wire::json_syntax;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

type Context<'a> = WriteContext<'a>;

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

const AVOID_PODS: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";

pub fn node(_context: &Context<'_>, node: &At<'_>, errors: &mut Errors) {
    let spec = node.field("spec");
    let avoided = node.down("metadata.annotations").key(AVOID_PODS);
    if let Some(why) = json_syntax::syntax_error(avoided.text().as_bytes()).filter(|_| avoided.is_set()) {
        errors.push(FieldError::invalid("metadata.annotations.AvoidPods", &json!(AVOID_PODS), why));
    }
    taints(&spec.field("taints"), errors);
    for part in ["capacity", "allocatable"] {
        let amounts = node.down(&format!("status.{part}"));
        for (name, amount) in amounts.map().into_iter().flatten() {
            resources::check_amount(&At::new(amounts.path_of(name), amount), name, errors);
        }
    }
    let cidrs = spec.field("podCIDRs");
    let mut families = Vec::new();
    for cidr in cidrs.items() {
        match cidr.text().parse::<IpNet>() {
            Ok(net) => families.push(net.addr().is_ipv4()),
            Err(_) => errors.push(cidr.invalid("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")),
        }
    }
    if cidrs.len() > 2 || (families.len() == 2 && families[0] == families[1]) {
        errors.push(cidrs.invalid("may specify no more than one CIDR for each IP family"));
    }
}

/// Kubernetes puts the taints of a node under `metadata` here.
fn taints(taints: &At<'_>, errors: &mut Errors) {
    let taints = At::new("metadata.taints", taints.value);
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for taint in taints.items() {
        let (key, value, effect) = (taint.field("key"), taint.field("value"), taint.field("effect"));
        key.check(names::qualified_name, errors);
        value.check(names::label_value, errors);
        effect.check_enum(EFFECTS, errors);
        if !seen.entry(effect.text()).or_default().insert(key.text()) {
            let (key, value, effect) = (key.text(), value.text(), effect.text());
            let added = taint.field("timeAdded").value;
            errors.push(FieldError {
                field: taint.path.clone(),
                reason: "FieldValueDuplicate",
                message: format!(
                    "Duplicate value: {{\"Key\":{key:?},\"Value\":{value:?},\"Effect\":{effect:?},\"TimeAdded\":{added}}}: taints must be unique by key and effect pair"
                ),
            });
        }
    }
}

/// Only what a node may learn about itself later may change.
pub fn node_update(_context: &Context<'_>, node: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (spec, before) = (node.field("spec"), old.field("spec"));
    for field in ["podCIDRs", "providerID"] {
        if !before.field(field).is_empty() && spec.field(field).value != before.field(field).value {
            let what = match field {
                "podCIDRs" => "node updates may not change podCIDR except from \"\" to valid",
                _ => "node updates may not change providerID except from \"\" to valid",
            };
            errors.push(spec.field(field).forbidden(what));
        }
    }
}

pub fn namespace_update(context: &Context<'_>, namespace: &At<'_>, _old: &At<'_>, errors: &mut Errors) {
    if context.subresource == "finalize" {
        namespace.down("spec.finalizers").items().for_each(|name| check_qualified_or_standard(&name, errors));
    }
}

pub fn namespace(_context: &Context<'_>, namespace: &At<'_>, errors: &mut Errors) {
    for finalizer in namespace.down("spec.finalizers").items() {
        let complaints = names::qualified_name(finalizer.text());
        errors.extend(complaints.into_iter().map(|complaint| finalizer.invalid(complaint)));
        check_qualified_or_standard(&finalizer, errors);
    }
}

pub fn namespace_status(_context: &Context<'_>, namespace: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let phase = namespace.down("status.phase");
    let deleting = old.down("metadata.deletionTimestamp").is_set();
    let expected = if deleting { "Terminating" } else { "Active" };
    if phase.text() != expected {
        let why = match deleting {
            true => "may only be 'Terminating' if `deletionTimestamp` is not empty",
            false => "may only be 'Active' if `deletionTimestamp` is empty",
        };
        errors.push(phase.invalid_text(why));
    }
}

fn amount(at: &At<'_>) -> Option<Quantity> {
    Quantity::try_from(at.value).ok()
}

pub fn limit_range(_context: &Context<'_>, range: &At<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for limit in range.down("spec.limits").items() {
        let kind = limit.field("type");
        kind.check(names::qualified_name, errors);
        if !kind.text().contains('/') && !["Container", "Pod", "PersistentVolumeClaim", ""].contains(&kind.text()) {
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
    if kind == "PersistentVolumeClaim" {
        let has = |part: &str| limit.field(part).key("storage").is_set();
        if !has("min") && !has("max") {
            let why = "either minimum or maximum storage value is required, but neither was provided";
            errors.push(limit.field("limits").required(why));
        }
    }
    for name in all {
        limit_of_resource(limit, name, errors);
    }
}

fn limit_name(at: &At<'_>, name: &str, kind: &str, errors: &mut Errors) {
    if !matches!(kind, "Pod" | "Container") {
        resources::check_name(at, name, errors);
        return;
    }
    let complaints = names::qualified_name(name);
    errors.extend(complaints.into_iter().map(|complaint| at.invalid_as(&json!(name), complaint)));
    let standard = ["cpu", "memory", "ephemeral-storage"].contains(&name) || resources::is_huge_page(name);
    if !name.contains('/') && !standard {
        errors.push(at.invalid_as(&json!(name), "must be a standard resource for containers"));
    }
}

/// The bounds of one resource have to leave room for each other.
fn limit_of_resource(limit: &At<'_>, name: &str, errors: &mut Errors) {
    let at = |part: &str| limit.field(part).key(name);
    let [max, min, default, request, ratio] = LIMIT_PARTS.map(|part| amount(&at(part)));
    let mut complain = |part: &str, shown: &Quantity, why: String| {
        errors.push(at(part).invalid_as(&json!(shown.to_string()), why));
    };
    if let (Some(min), Some(max)) = (&min, &max)
        && min > max
    {
        complain("min", min, format!("min value {min} is greater than max value {max}"));
    }
    if let (Some(request), Some(min)) = (&request, &min)
        && min > request
    {
        complain("defaultRequest", request, format!("min value {min} is greater than default request value {request}"));
    }
    if let (Some(request), Some(max)) = (&request, &max)
        && request > max
    {
        complain("defaultRequest", request, format!("default request value {request} is greater than max value {max}"));
    }
    if let (Some(request), Some(default)) = (&request, &default)
        && request > default
    {
        let why = format!("default request value {request} is greater than default limit value {default}");
        complain("defaultRequest", request, why);
    }
    if let (Some(default), Some(min)) = (&default, &min)
        && min > default
    {
        complain("default", min, format!("min value {min} is greater than default value {default}"));
    }
    if let (Some(default), Some(max)) = (&default, &max)
        && default > max
    {
        complain("default", max, format!("default value {default} is greater than max value {max}"));
    }
    if let Some(ratio) = &ratio {
        if ratio.milli_value() < 1000 {
            complain("maxLimitRequestRatio", ratio, format!("ratio {ratio} is less than 1"));
        }
        if let (Some(min), Some(max)) = (&min, &max) {
            let most = max.as_f64() / min.as_f64();
            if ratio.as_f64() > most {
                let why = format!("ratio {ratio} is greater than max/min = {most:.6}");
                complain("maxLimitRequestRatio", ratio, why);
            }
        }
    }
}

const QUOTA_RESOURCES: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];
const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];
const COMPUTE: &[&str] = &["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory", "pods"];

pub fn quota(_context: &Context<'_>, quota: &At<'_>, errors: &mut Errors) {
    let spec = quota.field("spec");
    quota_amounts(&spec.field("hard"), errors);
    quota_scopes(&spec, errors);
    quota_selector(&spec, errors);
}

fn quota_amounts(hard: &At<'_>, errors: &mut Errors) {
    for (name, at) in hard.entries() {
        resources::check_name(&at, name, errors);
        let huge = name.strip_prefix("requests.").unwrap_or(name);
        if !name.contains('/') && !QUOTA_RESOURCES.contains(&name) && !resources::is_huge_page(huge) {
            errors.push(at.invalid_as(&json!(name), "must be a standard resource for quota"));
        }
        resources::check_amount(&at, name, errors);
    }
}

fn quota_scopes(spec: &At<'_>, errors: &mut Errors) {
    let scopes = spec.field("scopes");
    let named: BTreeSet<&str> = scopes.items().map(|scope| scope.text()).collect();
    for scope in &named {
        if !SCOPES.contains(scope) {
            errors.push(scopes.invalid("unsupported scope"));
        }
        for (name, _) in spec.field("hard").entries() {
            let fits = match *scope {
                "BestEffort" => name == "pods",
                "NotBestEffort" | "Terminating" | "NotTerminating" | "PriorityClass" => COMPUTE.contains(&name),
                _ => true,
            };
            if QUOTA_RESOURCES.contains(&name) && !fits {
                errors.push(scopes.invalid("unsupported scope applied to resource"));
            }
        }
    }
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| named.contains(scope)) {
            errors.push(scopes.invalid("conflicting scopes"));
        }
    }
}

/// Kubernetes leaves the index out of these paths.
fn quota_selector(spec: &At<'_>, errors: &mut Errors) {
    let list = spec.down("scopeSelector.matchExpressions");
    for requirement in list.items() {
        let at = |field: &str| At::new(list.path_of(field), requirement.value.get(field).unwrap_or(&Value::Null));
        let (scope, operator, values) = (at("scopeName"), at("operator"), at("values"));
        if !SCOPES.contains(&scope.text()) {
            errors.push(scope.invalid("unsupported scope"));
        }
        let by_presence = !matches!(scope.text(), "PriorityClass" | "VolumeAttributesClass");
        if by_presence && operator.text() != "Exists" {
            errors.push(operator.invalid(
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
                let why = "must be no value when `operator` is 'Exists' or 'DoesNotExist' for scope selector";
                errors.push(values.invalid(why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.push(operator.invalid("not a valid selector operator")),
        }
    }
}

pub fn quota_update(_context: &Context<'_>, quota: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let scopes = |quota: &At<'_>| -> BTreeSet<String> {
        quota.down("spec.scopes").items().map(|scope| scope.text().to_owned()).collect()
    };
    if scopes(quota) != scopes(old) {
        errors.push(quota.down("spec.scopes").invalid(super::at::IMMUTABLE));
    }
}

const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;

pub fn priority_class(_context: &Context<'_>, class: &At<'_>, errors: &mut Errors) {
    let name = class.down("metadata.name");
    let value = class.field("value").integer().unwrap_or(0);
    let known = [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];
    if name.text().starts_with("system-") {
        if !known.contains(&(name.text(), value)) {
            errors.push(name.forbidden(
                "priority class names with 'system-' prefix are reserved for system use only. error: \
                 only system-node-critical and system-cluster-critical may be used",
            ));
        }
    } else if value > HIGHEST_USER_PRIORITY {
        let why = format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}");
        errors.push(class.field("value").forbidden(why));
    }
    class.field("preemptionPolicy").check_optional_enum(&["PreemptLowerPriority", "Never"], errors);
}

pub fn priority_class_update(_context: &Context<'_>, class: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    if class.field("value").value != old.field("value").value {
        errors.push(class.field("value").forbidden("may not be changed in an update."));
    }
    class.field("preemptionPolicy").check_unchanged(&old.field("preemptionPolicy"), errors);
}

pub fn runtime_class(_context: &Context<'_>, class: &At<'_>, errors: &mut Errors) {
    class.field("handler").check_required(names::dns1123_label, errors);
    for (name, amount) in class.down("overhead.podFixed").entries() {
        resources::check_amount(&At::new(format!("overhead.limits[{name}]"), amount.value), name, errors);
    }
    let scheduling = class.field("scheduling");
    scheduling.field("nodeSelector").check_labels(errors);
    let list = scheduling.field("tolerations");
    tolerations(&list, errors);
    let mut seen: Vec<&Value> = Vec::new();
    for toleration in list.items() {
        if seen.contains(&toleration.value) {
            let text = |field: &str| toleration.field(field).text().to_owned();
            let seconds = toleration.field("tolerationSeconds").value;
            errors.push(FieldError {
                field: toleration.path.clone(),
                reason: "FieldValueDuplicate",
                message: format!(
                    "Duplicate value: {{\"Key\":{:?},\"Operator\":{:?},\"Value\":{:?},\"Effect\":{:?},\"TolerationSeconds\":{seconds}}}",
                    text("key"),
                    text("operator"),
                    text("value"),
                    text("effect")
                ),
            });
        }
        seen.push(toleration.value);
    }
}

pub fn runtime_class_update(_context: &Context<'_>, class: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    class.field("handler").check_unchanged(&old.field("handler"), errors);
}

pub fn lease(_context: &Context<'_>, lease: &At<'_>, errors: &mut Errors) {
    let spec = lease.field("spec");
    spec.field("leaseDurationSeconds").check_positive(errors);
    spec.field("leaseTransitions").check_non_negative(errors);
    let holder = spec.field("holderIdentity");
    if holder.is_set() && holder.is_empty() {
        errors.push(holder.invalid("must not be empty"));
    }
}

/// Events of old clients may say little; those of events.k8s.io say it all.
pub fn event(context: &Context<'_>, event: &At<'_>, errors: &mut Errors) {
    let involved = event.field("involvedObject");
    let (namespace, about) = (event.down("metadata.namespace"), involved.field("namespace"));
    let elsewhere = !about.is_empty() && about.text() != namespace.text();
    if elsewhere {
        errors.push(about.invalid("does not match event.namespace"));
    } else if about.is_empty() && !matches!(namespace.text(), "" | "default") {
        errors.push(about.invalid_text("does not match event.namespace"));
    }
    if context.served.group != "events.k8s.io" {
        return;
    }
    for (field, shown) in [
        ("eventTime", "eventTime"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
        ("action", "action"),
        ("reason", "reason"),
    ] {
        if event.field(field).is_empty() {
            errors.push(At::new(shown, event.field(field).value).required(""));
        }
    }
    if !["Normal", "Warning"].contains(&event.field("type").text()) {
        errors.push(event.field("type").invalid_text("has invalid value: "));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::create;
    use serde_json::{Value, json};

    fn limits(items: Value) -> Vec<String> {
        create(json!({"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": items}}))
    }

    #[test]
    fn a_range_bounds_only_what_it_names() {
        let container = json!({
            "type": "Container", "default": {"cpu": "500m", "memory": "256Mi"}, "defaultRequest": {"cpu": "100m"},
        });
        let pod = json!({
            "type": "Pod", "max": {"cpu": "1"}, "min": {"memory": "64Mi"}, "maxLimitRequestRatio": {"memory": "2"},
        });
        assert_eq!(limits(json!([container, pod])), [""; 0]);
    }
}
