//! Admission webhooks: whom to ask, about what.
//!
//! Corresponds to pkg/apis/admissionregistration/validation.

use super::at::{At, Errors};
use super::selector;
use crate::registry::strategy::WriteContext;
use cel::Type;
use cel::admission::{MATCH_CONDITION, Scope};
use http::Uri;
use proto::meta::names;
use proto::meta::status::FieldError;
use serde_json::json;
use std::collections::BTreeSet;

type Context<'a> = WriteContext<'a>;

pub const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const MAX_MATCH_CONDITIONS: usize = 64;

pub fn configuration(_context: &Context<'_>, configuration: &At<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for hook in configuration.field("webhooks").items() {
        webhook(&hook, errors);
        if !seen.insert(hook.field("name").text()) {
            errors.push(hook.field("name").duplicate());
        }
    }
}

fn webhook(hook: &At<'_>, errors: &mut Errors) {
    review_versions(&hook.field("admissionReviewVersions"), errors);
    fully_qualified(&hook.field("name"), errors);
    hook.field("rules").items().for_each(|rule| self::rule(&rule, errors));
    hook.field("failurePolicy").check_optional_enum(&["Fail", "Ignore"], errors);
    hook.field("matchPolicy").check_optional_enum(&["Equivalent", "Exact"], errors);
    hook.field("reinvocationPolicy").check_optional_enum(&["IfNeeded", "Never"], errors);
    let side_effects = hook.field("sideEffects");
    if !side_effects.is_set() {
        errors.push(side_effects.required("must specify one of None, NoneOnDryRun"));
    }
    side_effects.check_optional_enum(&["None", "NoneOnDryRun"], errors);
    let timeout = hook.field("timeoutSeconds");
    if timeout.integer().is_some_and(|s| !(1..=30).contains(&s)) {
        errors.push(timeout.invalid("the timeout value must be between 1 and 30 seconds"));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        selector::check(&hook.field(field), errors);
    }
    client_config(&hook.field("clientConfig"), errors);
    match_conditions(&hook.field("matchConditions"), &MATCH_CONDITION, errors);
}

fn review_versions(versions: &At<'_>, errors: &mut Errors) {
    if versions.is_empty() {
        errors.push(versions.required("must specify one of v1, v1beta1"));
        return;
    }
    let mut seen = BTreeSet::new();
    for version in versions.items() {
        if !seen.insert(version.text()) {
            errors.push(version.duplicate());
        }
        version.check(names::dns1035_label, errors);
    }
    if !versions.items().any(|version| REVIEW_VERSIONS.contains(&version.text())) {
        errors.push(versions.invalid("must include at least one of v1, v1beta1"));
    }
}

fn fully_qualified(at: &At<'_>, errors: &mut Errors) {
    if at.is_empty() {
        errors.push(at.required(""));
        return;
    }
    let complaints = names::dns1123_subdomain(at.text());
    let fits = complaints.is_empty();
    errors.extend(complaints.into_iter().map(|complaint| at.invalid(complaint)));
    if fits && at.text().split('.').count() < 3 {
        errors.push(at.invalid("should be a domain with at least three segments separated by dots"));
    }
}

/// A list whose star stands alone.
fn starred(list: &At<'_>, others: &str, errors: &mut Errors) {
    if list.is_empty() {
        errors.push(list.required(""));
    }
    if list.len() > 1 && list.items().any(|item| item.text() == "*") {
        errors.push(list.invalid(format!("if '*' is present, must not specify other {others}")));
    }
}

pub fn rule(rule: &At<'_>, errors: &mut Errors) {
    let operations = rule.field("operations");
    starred(&operations, "operations", errors);
    for operation in operations.items() {
        if !OPERATIONS.contains(&operation.text()) {
            errors.push(operation.not_supported(OPERATIONS));
        }
    }
    starred(&rule.field("apiGroups"), "API groups", errors);
    starred(&rule.field("apiVersions"), "API versions", errors);
    for version in rule.field("apiVersions").items().filter(|version| version.is_empty()) {
        errors.push(version.required(""));
    }
    resources(&rule.field("resources"), errors);
    rule.field("scope").check_optional_enum(SCOPES, errors);
}

fn resources(list: &At<'_>, errors: &mut Errors) {
    if list.is_empty() {
        errors.push(list.required(""));
    }
    let all: Vec<&str> = list.items().map(|resource| resource.text()).collect();
    if all.len() > 1 && all.contains(&"*/*") {
        errors.push(list.invalid("if '*/*' is present, must not specify other resources"));
        return;
    }
    for (index, resource) in list.items().enumerate() {
        let (parent, child) = match resource.text().split_once('/') {
            None if resource.is_empty() => {
                errors.push(resource.required(""));
                continue;
            }
            None => continue,
            Some(parts) => parts,
        };
        let others = all.iter().enumerate().filter(|(other, _)| *other != index);
        let mut covers = others.map(|(_, other)| *other);
        if covers.any(|other| {
            other.split_once('/').is_some_and(|(p, c)| (p == "*" && c == child) || (c == "*" && p == parent))
        }) {
            let why = format!("if '{parent}/*' or '*/{child}' is present, must not specify {}", resource.text());
            errors.push(resource.invalid(why));
        }
    }
}

fn client_config(config: &At<'_>, errors: &mut Errors) {
    let (url, service) = (config.field("url"), config.field("service"));
    match (url.is_set(), service.is_set()) {
        (true, false) => self::url(&url, errors),
        (false, true) => self::service(&service, errors),
        _ => errors.push(config.required("exactly one of url or service is required")),
    }
}

const URL_FORM: &str = "; desired format: https://host[/path]";

fn url(at: &At<'_>, errors: &mut Errors) {
    let text = at.text();
    let (rest, fragment) = text.split_once('#').map_or((text, None), |(rest, fragment)| (rest, Some(fragment)));
    let Ok(uri) = rest.parse::<Uri>() else {
        errors.push(at.required(&format!("url must be a valid URL: {text:?}{URL_FORM}")));
        return;
    };
    let scheme = uri.scheme_str().unwrap_or_default();
    if scheme != "https" {
        // Kubernetes leaves the colon out after the value here.
        errors.push(FieldError {
            field: at.path.clone(),
            reason: "FieldValueInvalid",
            message: format!("Invalid value: {scheme:?}: 'https' is the only allowed URL scheme{URL_FORM}"),
        });
    }
    let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
    if authority.is_empty() {
        errors.push(at.invalid_as(&json!(""), format!("host must be specified{URL_FORM}")));
    }
    if let Some((user, _)) = authority.rsplit_once('@') {
        errors.push(at.invalid_as(&json!(user), "user information is not permitted in the URL"));
    }
    if let Some(fragment) = fragment.filter(|fragment| !fragment.is_empty()) {
        errors.push(at.invalid_as(&json!(fragment), "fragments are not permitted in the URL"));
    }
    if let Some(query) = uri.query().filter(|query| !query.is_empty()) {
        errors.push(at.invalid_as(&json!(query), "query parameters are not permitted in the URL"));
    }
}

fn service(service: &At<'_>, errors: &mut Errors) {
    for field in ["name", "namespace"] {
        if service.field(field).is_empty() {
            errors.push(service.field(field).required(""));
        }
    }
    let port = service.field("port");
    if port.integer().is_some_and(|port| !(1..=65535).contains(&port)) {
        errors.push(port.invalid("port is not valid: must be between 1 and 65535, inclusive"));
    }
    let path = service.field("path");
    if !path.is_set() || path.text() == "/" {
        return;
    }
    if !path.text().starts_with('/') {
        errors.push(path.invalid("must start with a '/'"));
    }
    let inner = path.text().strip_prefix('/').unwrap_or(path.text());
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    for (index, step) in inner.split('/').enumerate() {
        if step.is_empty() {
            errors.push(path.invalid(format!("segment[{index}] may not be empty")));
            continue;
        }
        for complaint in names::dns1123_subdomain(step) {
            errors.push(path.invalid(format!("segment[{index}]: {complaint}")));
        }
    }
}

/// Conditions that `scope` compiles.
pub fn match_conditions(conditions: &At<'_>, scope: &Scope, errors: &mut Errors) {
    if conditions.len() > MAX_MATCH_CONDITIONS {
        let (path, count) = (conditions.path.clone(), conditions.len());
        errors.push(FieldError::too_many(path, count, MAX_MATCH_CONDITIONS));
    }
    let mut seen = BTreeSet::new();
    for condition in conditions.items() {
        let expression = condition.field("expression");
        match expression.text().trim() {
            "" => errors.push(expression.required("")),
            text => {
                if let Err(why) = scope.compile(text, &[Type::Bool]) {
                    errors.push(expression.invalid_as(&json!(text), why));
                }
            }
        }
        let name = condition.field("name");
        name.check_required(names::qualified_name, errors);
        if !name.is_empty() && !seen.insert(name.text()) {
            errors.push(name.duplicate());
        }
    }
}
