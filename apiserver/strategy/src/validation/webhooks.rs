//! Validates admission webhook configurations: rules, match conditions, client configuration.
//!
//! Corresponds to pkg/apis/admissionregistration/validation.

use super::selector;
use crate::write_context::WriteContext;
use cel::Type;
use cel::admission::{MATCH_CONDITION, Scope};
use field_checks::at::{At, Errors};
use http::Uri;
use proto::meta::names;
use proto::meta::status::FieldError;
use serde_json::{Value, json};
use std::collections::BTreeSet;

type Context<'a> = WriteContext<'a>;

pub const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const MAX_MATCH_CONDITIONS: usize = 64;
const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
/// Values that v1beta1 allowed. A stored webhook may still have them.
const ANY_SIDE_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];
const SELECTORS: [&str; 2] = ["namespaceSelector", "objectSelector"];

/// Invalid values that an update may keep, because the stored configuration has them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tolerated {
    match_conditions: bool,
    side_effects: bool,
    review_versions: bool,
    names: bool,
    label_values: bool,
}

impl Tolerated {
    fn of(new: &At<'_>, old: &At<'_>) -> Self {
        let (new, old): (Vec<At<'_>>, Vec<At<'_>>) = (new.items().collect(), old.items().collect());
        let conditions =
            |hooks: &[At<'_>]| hooks.iter().map(|hook| hook.field("matchConditions").value.clone()).collect();
        let (new, known): (Vec<Value>, Vec<Value>) = (conditions(&new), conditions(&old));
        let is_reviewed = |hook: &At<'_>| {
            let versions = hook.field("admissionReviewVersions");
            versions.is_empty() || has_known_version(&versions)
        };
        let has_sound_selectors = |hook: &At<'_>| {
            let mut errors = Errors::new();
            SELECTORS.iter().for_each(|field| selector::check(&hook.field(field), &mut errors));
            errors.is_empty()
        };
        let names: BTreeSet<&str> = old.iter().map(|hook| hook.field("name").text()).collect();
        Self {
            match_conditions: new == known,
            side_effects: !old.iter().all(|hook| SIDE_EFFECTS.contains(&hook.field("sideEffects").text())),
            review_versions: !old.iter().all(is_reviewed),
            names: names.len() < old.len(),
            label_values: !old.iter().all(has_sound_selectors),
        }
    }
}

pub fn configuration(_context: &Context<'_>, configuration: &At<'_>, errors: &mut Errors) {
    webhooks(&configuration.field("webhooks"), Tolerated::default(), errors);
}

/// Checks an update instead of `configuration`: invalid values of the old object may stay.
pub fn configuration_update(_context: &Context<'_>, new: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (new, old) = (new.field("webhooks"), old.field("webhooks"));
    webhooks(&new, Tolerated::of(&new, &old), errors);
}

fn webhooks(hooks: &At<'_>, tolerated: Tolerated, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for hook in hooks.items() {
        webhook(&hook, tolerated, errors);
        let name = hook.field("name");
        if !tolerated.names && !name.is_empty() && !seen.insert(name.text()) {
            errors.push(name.duplicate());
        }
    }
}

fn webhook(hook: &At<'_>, tolerated: Tolerated, errors: &mut Errors) {
    fully_qualified(&hook.field("name"), errors);
    hook.field("rules").items().for_each(|rule| self::rule(&rule, errors));
    hook.field("failurePolicy").check_optional_enum(&["Fail", "Ignore"], errors);
    hook.field("matchPolicy").check_optional_enum(&["Equivalent", "Exact"], errors);
    hook.field_if_defined("reinvocationPolicy").check_optional_enum(&["IfNeeded", "Never"], errors);
    let side_effects = hook.field("sideEffects");
    let allowed = if tolerated.side_effects { &ANY_SIDE_EFFECTS[..] } else { &SIDE_EFFECTS[..] };
    if !side_effects.is_set() {
        errors.push(side_effects.required(&format!("must specify one of {}", allowed.join(", "))));
    }
    side_effects.check_optional_enum(allowed, errors);
    let timeout = hook.field("timeoutSeconds");
    if timeout.integer().is_some_and(|s| !(1..=30).contains(&s)) {
        errors.push(timeout.invalid("the timeout value must be between 1 and 30 seconds"));
    }
    for field in SELECTORS {
        let mut found = Errors::new();
        selector::check(&hook.field(field), &mut found);
        found.retain(|error| !tolerated.label_values || !error.field.contains(".values["));
        errors.append(&mut found);
    }
    client_config(&hook.field("clientConfig"), errors);
    if !tolerated.match_conditions {
        match_conditions(&hook.field("matchConditions"), &MATCH_CONDITION, errors);
    }
    review_versions(&hook.field("admissionReviewVersions"), tolerated, errors);
}

fn has_known_version(versions: &At<'_>) -> bool {
    versions.items().any(|version| REVIEW_VERSIONS.contains(&version.text()))
}

fn review_versions(versions: &At<'_>, tolerated: Tolerated, errors: &mut Errors) {
    if versions.is_empty() {
        errors.push(versions.required("must specify one of v1, v1beta1"));
        return;
    }
    let mut seen = BTreeSet::new();
    for version in versions.items() {
        if !seen.insert(version.text()) {
            errors.push(version.invalid("duplicate version"));
            continue;
        }
        version.check(names::dns1035_label, errors);
    }
    if !tolerated.review_versions && !has_known_version(versions) {
        errors.push(versions.invalid("must include at least one of v1, v1beta1"));
    }
}

fn fully_qualified(at: &At<'_>, errors: &mut Errors) {
    if at.is_empty() {
        errors.push(at.required(""));
        return;
    }
    let complaints = names::dns1123_subdomain(at.text());
    let is_subdomain = complaints.is_empty();
    errors.extend(complaints.into_iter().map(|complaint| at.invalid(complaint)));
    if is_subdomain && at.text().split('.').count() < 3 {
        errors.push(at.invalid("should be a domain with at least three segments separated by dots"));
    }
}

/// Checks that a list is not empty, and that `*` is its only item if it has one.
fn check_wildcard(list: &At<'_>, others: &str, errors: &mut Errors) {
    if list.is_empty() {
        errors.push(list.required(""));
    }
    if list.len() > 1 && list.items().any(|item| item.text() == "*") {
        errors.push(list.invalid(format!("if '*' is present, must not specify other {others}")));
    }
}

pub fn rule(rule: &At<'_>, errors: &mut Errors) {
    let operations = rule.field("operations");
    check_wildcard(&operations, "operations", errors);
    for operation in operations.items() {
        if !OPERATIONS.contains(&operation.text()) {
            errors.push(operation.not_supported(OPERATIONS));
        }
    }
    check_wildcard(&rule.field("apiGroups"), "API groups", errors);
    check_wildcard(&rule.field("apiVersions"), "API versions", errors);
    for version in rule.field("apiVersions").items().filter(|version| version.is_empty()) {
        errors.push(version.required(""));
    }
    resources(&rule.field("resources"), errors);
    rule.field("scope").check_optional_enum(SCOPES, errors);
}

/// Checks that no resource is covered by a wildcard before it. The errors about `*/*` and `*` come last.
fn resources(list: &At<'_>, errors: &mut Errors) {
    if list.is_empty() {
        errors.push(list.required(""));
    }
    // Parents of `pods/*`, and subresources of `*/scale`.
    let (mut parents, mut subresources) = (BTreeSet::new(), BTreeSet::new());
    // Kubernetes keeps the result for the last resource without a subresource only.
    let mut last_is_named = false;
    for resource in list.items() {
        let text = resource.text();
        let Some((parent, child)) = text.split_once('/') else {
            match text {
                "" => errors.push(resource.required("")),
                _ => last_is_named = text != "*",
            }
            continue;
        };
        if parents.contains(parent) {
            errors.push(resource.invalid(format!("if '{parent}/*' is present, must not specify {text}")));
        }
        if subresources.contains(child) {
            errors.push(resource.invalid(format!("if '*/{child}' is present, must not specify {text}")));
        }
        parents.extend((child == "*").then_some(parent));
        subresources.extend((parent == "*").then_some(child));
    }
    let has = |text: &str| list.items().any(|resource| resource.text() == text);
    if list.len() > 1 && has("*/*") {
        errors.push(list.invalid("if '*/*' is present, must not specify other resources"));
    }
    if last_is_named && has("*") {
        errors.push(list.invalid("if '*' is present, must not specify other resources without subresources"));
    }
}

pub fn client_config(config: &At<'_>, errors: &mut Errors) {
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
    for (index, segment) in inner.split('/').enumerate() {
        if segment.is_empty() {
            errors.push(path.invalid(format!("segment[{index}] may not be empty")));
            continue;
        }
        for complaint in names::dns1123_subdomain(segment) {
            errors.push(path.invalid(format!("segment[{index}]: {complaint}")));
        }
    }
}

/// Checks match conditions: unique names, and boolean expressions that compile in `scope`.
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

#[cfg(test)]
mod tests {
    use crate::testing::{create, update};
    use serde_json::{Value, json};

    fn hooks(hooks: &[Value]) -> Value {
        let all = hooks.iter().map(|fields| {
            let mut hook = json!({
                "name": "a.hooks.test", "clientConfig": {"url": "https://a"}, "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            });
            hook.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            hook
        });
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "webhooks": all.collect::<Vec<_>>(),
        })
    }

    /// Returns the fields that the errors report.
    fn fields(errors: &[String]) -> Vec<&str> {
        errors
            .iter()
            .filter_map(|error| error.strip_prefix("webhooks")?.split_once(": "))
            .map(|(field, _)| field)
            .collect()
    }

    #[test]
    fn an_update_may_keep_invalid_values() {
        let selector = json!({"matchExpressions": [{"key": "k", "operator": "In", "values": ["-"]}]});
        for (wrong, field) in [
            (
                json!({"matchConditions": [{"name": "c", "expression": "nobody.knows"}]}),
                "[0].matchConditions[0].expression",
            ),
            (json!({"sideEffects": "Unknown"}), "[0].sideEffects"),
            (json!({"admissionReviewVersions": ["v2"]}), "[0].admissionReviewVersions"),
            (json!({"namespaceSelector": selector}), "[0].namespaceSelector.matchExpressions[0].values[0]"),
        ] {
            let (sound, wrong) = (hooks(&[json!({})]), hooks(&[wrong]));
            assert_eq!(fields(&create(wrong.clone())), [field]);
            assert_eq!(fields(&update(sound, wrong.clone())), [field], "it was sound");
            let mut changed = wrong.clone();
            changed["webhooks"][0]["failurePolicy"] = json!("Ignore");
            assert_eq!(update(wrong, changed), Vec::<String>::new(), "{field}");
        }
        let twice = hooks(&[json!({}), json!({})]);
        assert_eq!(fields(&update(hooks(&[json!({})]), twice.clone())), ["[1].name"]);
        assert_eq!(update(twice.clone(), twice), Vec::<String>::new());
    }

    #[test]
    fn a_rule_does_not_name_what_a_star_covers() {
        let rule = |resources: Value| {
            let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": resources});
            create(hooks(&[json!({"rules": [rule]})]))
        };
        let at = "webhooks[0].rules[0].resources";
        assert_eq!(
            rule(json!(["pods/log", "pods/*", "pods/exec", "*/scale", "jobs/scale", ""])),
            [
                format!("{at}[2]: Invalid value: \"pods/exec\": if 'pods/*' is present, must not specify pods/exec"),
                format!("{at}[4]: Invalid value: \"jobs/scale\": if '*/scale' is present, must not specify jobs/scale"),
                format!("{at}[5]: Required value"),
            ]
        );
        let others = "must not specify other resources without subresources";
        assert_eq!(
            rule(json!(["*", "pods"])),
            [format!("{at}: Invalid value: [\"*\",\"pods\"]: if '*' is present, {others}")]
        );
    }

    #[test]
    fn review_versions_are_checked_last() {
        assert_eq!(
            create(hooks(&[json!({"timeoutSeconds": 0, "admissionReviewVersions": ["v1", "v1"]})])),
            [
                "webhooks[0].timeoutSeconds: Invalid value: 0: the timeout value must be between 1 and 30 seconds",
                "webhooks[0].admissionReviewVersions[1]: Invalid value: \"v1\": duplicate version",
            ]
        );
    }

    #[test]
    fn an_update_may_not_add_invalid_values() {
        let condition = |expression: &str| json!({"matchConditions": [{"name": "c", "expression": expression}]});
        let (one, other) = (condition("nobody.knows"), condition("nobody.asks"));
        let field = "[0].matchConditions[0].expression";
        let before = hooks(std::slice::from_ref(&one));
        assert_eq!(fields(&update(before.clone(), hooks(&[other]))), [field]);
        // If the number of webhooks changes, every match condition is checked.
        assert_eq!(fields(&update(before, hooks(&[one, json!({"name": "b.hooks.test"})]))), [field]);
        let (some, odd) = (json!({"sideEffects": "Some"}), json!({"sideEffects": "Odd"}));
        let errors = update(hooks(&[some]), hooks(&[odd]));
        let all = r#"supported values: "None", "NoneOnDryRun", "Some", "Unknown""#;
        assert_eq!(errors, [format!("webhooks[0].sideEffects: Unsupported value: \"Odd\": {all}")]);
        let of = |key: &str| json!({"objectSelector": {"matchExpressions": [{"key": key, "operator": "In", "values": ["-"]}]}});
        assert_eq!(
            fields(&update(hooks(&[of("k")]), hooks(&[of("-")]))),
            ["[0].objectSelector.matchExpressions[0].key"],
            "a value may stay wrong, a key not"
        );
    }
}
