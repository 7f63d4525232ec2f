//! Checks label selectors, and whether a workload's selector matches the labels of its pod template.
//!
//! Corresponds to ValidateLabelSelector and ValidatePodTemplateSpecForReplicaSet.

use super::at::{At, Errors};
use proto::meta::label_selector;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub const MISMATCH: &str = "`selector` does not match template `labels`";

pub fn labels_of(value: &Value) -> BTreeMap<String, String> {
    let labels: Option<&Map<String, Value>> = value.as_object();
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    labels.into_iter().flatten().filter_map(text).collect()
}

pub fn check(selector: &At<'_>, errors: &mut Errors) {
    if selector.is_set() {
        errors.extend(label_selector::validate(selector.value, &selector.path));
    }
}

/// Returns whether the selector is set and matches every object.
pub fn matches_everything(selector: &At<'_>) -> bool {
    selector.is_set() && is_empty(selector)
}

fn is_empty(selector: &At<'_>) -> bool {
    selector.field("matchLabels").is_empty() && selector.field("matchExpressions").is_empty()
}

/// Checks a selector that is required and must not be empty.
pub fn check_required(selector: &At<'_>, kind: &str, errors: &mut Errors) {
    if !selector.is_set() {
        errors.push(selector.required(""));
        return;
    }
    check(selector, errors);
    if is_empty(selector) {
        errors.push(selector.invalid(format!("empty selector is invalid for {kind}")));
    }
}

/// Returns the selector as Kubernetes' errors show it: `matchLabels` first.
pub fn shown(selector: &At<'_>) -> String {
    let fields = ["matchLabels", "matchExpressions"].into_iter().filter(|field| !selector.field(field).is_empty());
    let fields: Vec<String> = fields.map(|field| format!("{field:?}:{}", selector.field(field).value)).collect();
    format!("{{{}}}", fields.join(","))
}

/// Returns whether the selector is set but invalid.
pub fn is_invalid(selector: &At<'_>) -> bool {
    selector.is_set() && label_selector::from_value(Some(selector.value)).is_err()
}

/// Returns whether a selector matches the labels of a template. An absent selector matches nothing.
pub fn matches(selector: &At<'_>, template: &At<'_>) -> bool {
    let labels = labels_of(template.down("metadata.labels").value);
    let value = selector.is_set().then_some(selector.value);
    label_selector::from_value(value).is_ok_and(|selector| selector.matches(&labels))
}

pub fn check_match(selector: &At<'_>, template: &At<'_>, errors: &mut Errors) {
    if !matches(selector, template) {
        errors.push(template.down("metadata.labels").invalid(MISMATCH));
    }
}

/// Checks that the pods of a template run until they are deleted: they restart always and have no deadline. `owner` is
/// the kind of the workload in the error.
pub fn check_long_running(template: &At<'_>, owner: &str, errors: &mut Errors) {
    let restart = template.down("spec.restartPolicy");
    if restart.text() != "Always" {
        errors.push(At::new(restart.path.clone(), &json!(restart.text())).not_supported(&["Always"]));
    }
    let deadline = template.down("spec.activeDeadlineSeconds");
    if deadline.is_set() {
        errors.push(deadline.forbidden(format!("activeDeadlineSeconds in {owner} is not Supported")));
    }
}
