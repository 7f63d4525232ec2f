//! What a schema may not say at all: features of OpenAPI that custom resources do without.

use crate::registry::validation::at::{At, Errors};
use proto::schema::structural::{Pattern, TYPES};
use serde_json::{Value, json};

/// Nodes below this depth are refused: a schema that deep is no schema.
const MAX_DEPTH: usize = 64;

pub fn check(root: &At<'_>, errors: &mut Errors) {
    if root.field("nullable").is_true() {
        errors.push(root.field("nullable").forbidden("nullable cannot be true at the root"));
    }
    node(root, 0, errors);
}

fn node(schema: &At<'_>, depth: usize, errors: &mut Errors) {
    if depth > MAX_DEPTH {
        errors.push(schema.forbidden(format!("schemas may not be nested deeper than {MAX_DEPTH} levels")));
        return;
    }
    check_forbidden(schema, errors);
    let kind = schema.field("type");
    if !kind.is_empty() && !TYPES.contains(&kind.text()) {
        errors.push(kind.not_supported(&TYPES));
    }
    check_lists_and_maps(schema, errors);
    let pattern = schema.field("pattern");
    if !pattern.is_empty() && Pattern::new(pattern.text()).is_none() {
        let why = regex_error(pattern.text());
        errors.push(pattern.invalid(format!("must be a valid regular expression, but isn't: {why}")));
    }
    let items = schema.field("items");
    if items.value.is_array() {
        errors.push(items.forbidden("items must be a schema object and not an array"));
    }
    if kind.text() == "array" && !items.is_set() {
        errors.push(items.required("must be specified"));
    }
    for key in ["items", "additionalProperties", "not"] {
        let inner = schema.field(key);
        if inner.value.is_object() {
            node(&inner, depth + 1, errors);
        }
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        schema.field(key).items().for_each(|inner| node(&inner, depth + 1, errors));
    }
    schema.field("properties").entries().for_each(|(_, inner)| node(&inner, depth + 1, errors));
}

fn check_forbidden(schema: &At<'_>, errors: &mut Errors) {
    for (key, what) in [
        ("definitions", "definitions is not supported"),
        ("dependencies", "dependencies is not supported"),
        ("id", "id is not supported"),
        ("additionalItems", "additionalItems is not supported"),
        ("patternProperties", "patternProperties is not supported"),
        ("$ref", "$ref is not supported"),
    ] {
        let at = schema.field(key);
        if at.is_set() && !at.is_empty() {
            errors.push(at.forbidden(what));
        }
    }
    if schema.field("uniqueItems").is_true() {
        errors.push(
            schema
                .field("uniqueItems")
                .forbidden("uniqueItems cannot be set to true since the runtime complexity becomes quadratic"),
        );
    }
    let values = schema.field("additionalProperties");
    if values.is_set() && !schema.field("properties").is_empty() && *values.value != json!(true) {
        errors.push(values.forbidden("additionalProperties and properties are mutual exclusive"));
    }
    let keeps = schema.field("x-kubernetes-preserve-unknown-fields");
    if *keeps.value == Value::Bool(false) {
        errors.push(keeps.invalid("must be true or undefined"));
    }
}

fn check_lists_and_maps(schema: &At<'_>, errors: &mut Errors) {
    let kind = schema.field("type");
    let list_type = schema.field("x-kubernetes-list-type");
    if list_type.is_set() {
        if kind.text() != "array" {
            let shown = if kind.is_empty() {
                kind.required("must be array if x-kubernetes-list-type is specified")
            } else {
                kind.invalid("must be array if x-kubernetes-list-type is specified")
            };
            errors.push(shown);
        }
        list_type.check_optional_enum(&["atomic", "set", "map"], errors);
    }
    let keys = schema.field("x-kubernetes-list-map-keys");
    if list_type.text() == "map" {
        check_map_keys(schema, &keys, errors);
    } else if !keys.is_empty() {
        errors.push(list_type.required("must be map if x-kubernetes-list-map-keys is non-empty"));
    }
    if list_type.text() == "set" {
        check_set_items(&schema.field("items"), errors);
    }
    let map_type = schema.field("x-kubernetes-map-type");
    if map_type.is_set() {
        if kind.text() != "object" {
            errors.push(kind.invalid_text("must be object if x-kubernetes-map-type is specified"));
        }
        map_type.check_optional_enum(&["atomic", "granular"], errors);
    }
}

fn check_map_keys(schema: &At<'_>, keys: &At<'_>, errors: &mut Errors) {
    let items = schema.field("items");
    if keys.is_empty() {
        errors.push(keys.required("must not be empty if x-kubernetes-list-type is map"));
        return;
    }
    if items.field("type").text() != "object" {
        errors.push(items.field("type").invalid_text("must be object if parent array's x-kubernetes-list-type is map"));
        return;
    }
    let required = items.field("required");
    let mut seen: Vec<&str> = Vec::new();
    for key in keys.items() {
        if seen.contains(&key.text()) {
            errors.push(key.duplicate());
        }
        seen.push(key.text());
        let property = items.field("properties").key(key.text());
        if !property.is_set() {
            errors.push(key.invalid("entries must all be names of item properties"));
            continue;
        }
        if matches!(property.field("type").text(), "array" | "object") {
            errors.push(
                property.field("type").invalid("must be a scalar type if parent array's x-kubernetes-list-type is map"),
            );
        }
        if property.field("nullable").is_true() {
            errors.push(
                property
                    .field("nullable")
                    .forbidden("this property is in x-kubernetes-list-map-keys, so it cannot be nullable"),
            );
        }
        let is_required = required.items().any(|name| name.text() == key.text());
        if !is_required && !property.field("default").is_set() {
            errors.push(property.field("default").required(
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ));
        }
    }
}

fn check_set_items(items: &At<'_>, errors: &mut Errors) {
    if items.field("nullable").is_true() {
        errors.push(
            items
                .field("nullable")
                .forbidden("nullable is forbidden for items of a list with x-kubernetes-list-type=set"),
        );
    }
    match items.field("type").text() {
        "object" => {
            let map_type = items.field("x-kubernetes-map-type");
            if map_type.text() != "atomic" {
                errors.push(map_type.invalid("must be atomic as item of a list with x-kubernetes-list-type=set"));
            }
        }
        "array" => {
            let list_type = items.field("x-kubernetes-list-type");
            if list_type.is_set() && list_type.text() != "atomic" {
                errors.push(list_type.invalid("must be atomic as item of a list with x-kubernetes-list-type=set"));
            }
        }
        _ => {}
    }
}

/// In Go's words where the mistake is a common one.
fn regex_error(text: &str) -> String {
    let why = regex::Regex::new(text).err().map(|error| error.to_string()).unwrap_or_default();
    let detail = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
    match detail {
        "unclosed character class" => {
            let from = text.rfind('[').unwrap_or(0);
            format!("error parsing regexp: missing closing ]: `{}`", &text[from..])
        }
        "unclosed group" => format!("error parsing regexp: missing closing ): `{text}`"),
        "unopened group" => format!("error parsing regexp: unexpected ): `{text}`"),
        other => format!("error parsing regexp: {other}: `{text}`"),
    }
}
