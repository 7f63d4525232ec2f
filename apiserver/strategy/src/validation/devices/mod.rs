//! Validates the kinds of `resource.k8s.io`: ResourceSlices, DeviceClasses, ResourceClaims and their templates.
//!
//! Corresponds to pkg/apis/resource/validation.

pub mod allocation;
mod capacity;
pub mod claim;
mod expressions;
mod identifiers;
pub mod slice;
pub mod taint_rules;
pub mod taints;

use super::resource_names::is_extended;
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors};
use identifiers::driver;
use proto::meta::names;
use proto::meta::status::FieldError;
use serde_json::{Value, json};
use std::collections::BTreeSet;

type Context<'a> = WriteContext<'a>;
type Check<'c> = &'c dyn Fn(&At<'_>, &mut Errors);

const MAX_CONFIGS: usize = 32;
const MAX_SELECTORS: usize = 32;
const MAX_EXPRESSION_BYTES: usize = 10 * 1024;
const MAX_PARAMETERS_BYTES: usize = 10 * 1024;
const MAX_BINDING_CONDITIONS: usize = 4;
const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];

/// Checks each item of a list. A list that is too long gets one error instead.
fn check_each(list: &At<'_>, max: usize, errors: &mut Errors, check: Check<'_>) {
    if list.len() > max {
        errors.push(FieldError::too_many(list.path.clone(), list.len(), max));
    } else {
        list.items().for_each(|item| check(&item, errors));
    }
}

/// Checks each item of a list as `check_each` does, and that no two items have the same key.
fn check_each_unique(list: &At<'_>, key: fn(&Value) -> Value, max: usize, errors: &mut Errors, check: Check<'_>) {
    check_each(list, max, errors, check);
    if list.len() <= max {
        let mut seen = BTreeSet::new();
        let duplicates = list.items().filter(|item| !seen.insert(key(item.value).to_string()));
        errors.extend(duplicates.map(|item| item.duplicate()));
    }
}

fn by_name(item: &Value) -> Value {
    item["name"].clone()
}

fn by_value(item: &Value) -> Value {
    item.clone()
}

/// Checks each entry of a map. A map that is too long gets one error instead. Paths show at most `shown_bytes` of a
/// key.
fn check_each_entry<'a>(
    map: &At<'a>,
    max: usize,
    shown_bytes: usize,
    errors: &mut Errors,
    check: &dyn Fn(&'a str, &At<'a>, &mut Errors),
) {
    if map.len() > max {
        errors.push(FieldError::too_many(map.path.clone(), map.len(), max));
        return;
    }
    for (key, at) in map.entries() {
        let at = At::new(format!("{}[{}]", map.path, shorten(key, shown_bytes)), at.value);
        check(key, &at, errors);
    }
}

/// Replaces the middle of a text that is too long by `...`.
fn shorten(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let kept = max_bytes - "...".len();
    let (head, tail) = (kept.div_ceil(2), text.len() - kept / 2);
    format!(
        "{}...{}",
        String::from_utf8_lossy(&text.as_bytes()[..head]),
        String::from_utf8_lossy(&text.as_bytes()[tail..])
    )
}

fn taint(taint: &At<'_>, errors: &mut Errors) {
    taint.field("key").check(names::qualified_name, errors);
    if !taint.field("value").is_empty() {
        taint.field("value").check(names::label_value, errors);
    }
    taint.field("effect").check_enum(EFFECTS, errors);
}

fn toleration(toleration: &At<'_>, errors: &mut Errors) {
    let (key, operator, value) = (toleration.field("key"), toleration.field("operator"), toleration.field("value"));
    if !key.is_empty() {
        key.check(names::qualified_name, errors);
    }
    match operator.text() {
        "Exists" if !value.is_empty() => {
            errors.push(value.invalid("must be empty for operator `Exists`"));
        }
        "Exists" => {}
        "Equal" => value.check(names::label_value, errors),
        _ => operator.check_enum(&["Equal", "Exists"], errors),
    }
    let effect = toleration.field("effect");
    if !effect.is_empty() {
        effect.check_enum(EFFECTS, errors);
    }
}

/// Checks the binding conditions of a device and its binding failure conditions.
fn binding_conditions(device: &At<'_>, errors: &mut Errors) {
    let (conditions, failures) = (device.field("bindingConditions"), device.field("bindingFailureConditions"));
    for list in [&conditions, &failures] {
        check_each(list, MAX_BINDING_CONDITIONS, errors, &|condition, errors| {
            condition.check(names::qualified_name, errors);
        });
    }
    let mut seen = BTreeSet::new();
    errors.extend(conditions.items().filter(|one| !seen.insert(one.text())).map(|one| one.duplicate()));
    let mut seen_failures = BTreeSet::new();
    for condition in failures.items() {
        if !seen_failures.insert(condition.text()) {
            errors.push(condition.duplicate());
        }
        if seen.contains(condition.text()) {
            errors.push(condition.invalid("bindingFailureConditions must not overlap with bindingConditions"));
        }
    }
    match (conditions.is_empty(), failures.is_empty()) {
        (true, false) => {
            errors.push(conditions.invalid("bindingConditions are required to use bindingFailureConditions"))
        }
        (false, true) => {
            errors.push(failures.invalid("bindingFailureConditions are required to use bindingConditions"));
        }
        _ => {}
    }
}

fn selectors(selectors: &At<'_>, errors: &mut Errors) {
    check_each(selectors, MAX_SELECTORS, errors, &|selector, errors| {
        let (cel, expression) = (selector.field("cel"), selector.down("cel.expression"));
        if !cel.is_set() {
            errors.push(cel.required(""));
        } else if expression.is_empty() {
            errors.push(expression.required(""));
        } else if expression.len() > MAX_EXPRESSION_BYTES {
            errors.push(expression.too_long(MAX_EXPRESSION_BYTES));
        } else {
            expressions::check(&expression, errors);
        }
    });
}

/// Checks the configuration of a device, whose parameters only its driver interprets.
fn opaque(config: &At<'_>, errors: &mut Errors) {
    let opaque = config.field("opaque");
    if !opaque.is_set() {
        errors.push(opaque.required(""));
        return;
    }
    driver(&opaque.field("driver"), errors);
    let parameters = opaque.field("parameters");
    if parameters.is_set() {
        raw_object(&parameters, MAX_PARAMETERS_BYTES, errors);
    } else {
        errors.push(parameters.required(""));
    }
}

/// Checks that a free-form value is an object and not too long.
fn raw_object(raw: &At<'_>, max_bytes: usize, errors: &mut Errors) {
    if raw.value.to_string().len() > max_bytes {
        errors.push(raw.too_long(max_bytes));
    } else if !raw.value.is_object() {
        errors.push(raw.invalid_as(&json!("<value omitted>"), "must be a valid JSON object"));
    }
}

pub fn class(_context: &Context<'_>, class: &At<'_>, errors: &mut Errors) {
    let spec = class.field("spec");
    selectors(&spec.field("selectors"), errors);
    check_each(&spec.field("config"), MAX_CONFIGS, errors, &opaque);
    let extended = spec.field("extendedResourceName");
    if extended.is_set() && !is_extended(extended.text()) {
        errors.push(extended.invalid("must be a valid extended resource name"));
    }
}

#[cfg(test)]
mod tests;
