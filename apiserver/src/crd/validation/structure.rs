//! What makes a schema structural: types everywhere, and value rules that add no structure of their own.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/apiserver/schema/validation.go and defaulting/validation.go.

use crate::registry::validation::at::{At, Errors};
use proto::schema::structural::{Structural, plain_numbers, prune, validate};
use serde_json::{Value, json};

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Field,
    Item,
}

pub fn check(root: &At<'_>, errors: &mut Errors) {
    let mut rules = Vec::new();
    check_node(root, Level::Root, errors, &mut rules);
    errors.append(&mut rules);
}

/// Errors of value rules come first, as in Kubernetes; `structure` collects the others.
fn check_node(schema: &At<'_>, level: Level, errors: &mut Errors, structure: &mut Errors) {
    check_type(schema, level, structure);
    check_embedded(schema, structure);
    if level == Level::Root {
        check_metadata(&schema.field("properties").key("metadata"), structure);
    }
    check_default(schema, structure);
    for key in ["allOf", "anyOf", "oneOf"] {
        let branches = schema.field(key);
        let is_int_or_string = key == "anyOf" && is_int_or_string_pattern(schema);
        for branch in branches.items().filter(|_| !is_int_or_string) {
            check_branch(&branch, schema, errors);
        }
    }
    let not = schema.field("not");
    if not.is_set() {
        check_branch(&not, schema, errors);
    }
    let items = schema.field("items");
    if items.is_set() {
        check_node(&items, Level::Item, errors, structure);
    }
    let values = schema.field("additionalProperties");
    if values.is_set() && level == Level::Root {
        structure.push(values.forbidden("must not be used at the root"));
    }
    if values.is_set() && schema.field("x-kubernetes-embedded-resource").is_true() {
        structure.push(values.forbidden("must not be used if x-kubernetes-embedded-resource is set"));
    }
    if values.value.is_object() {
        check_node(&values, Level::Item, errors, structure);
    }
    for (name, property) in schema.field("properties").entries() {
        if level == Level::Root && name == "metadata" {
            continue;
        }
        check_node(&property, Level::Field, errors, structure);
    }
}

fn check_type(schema: &At<'_>, level: Level, errors: &mut Errors) {
    let kind = schema.field("type");
    let is_free = schema.field("x-kubernetes-int-or-string").is_true()
        || schema.field("x-kubernetes-preserve-unknown-fields").is_true();
    match (kind.text(), level) {
        ("", Level::Root) => errors.push(kind.required("must not be empty at the root")),
        ("", _) if is_free => {}
        ("", Level::Field) => errors.push(kind.required("must not be empty for specified object fields")),
        ("", Level::Item) => errors.push(kind.required("must not be empty for specified array items")),
        ("object", _) => {}
        (_, Level::Root) => errors.push(kind.invalid("must be object at the root")),
        _ => {}
    }
}

fn check_embedded(schema: &At<'_>, errors: &mut Errors) {
    if !schema.field("x-kubernetes-embedded-resource").is_true() {
        return;
    }
    let kind = schema.field("type");
    if kind.text() != "object" {
        errors.push(kind.invalid_text("must be object if x-kubernetes-embedded-resource is true"));
    }
    let keeps = schema.field("x-kubernetes-preserve-unknown-fields").is_true();
    if !keeps && schema.field("properties").is_empty() {
        errors.push(schema.field("properties").required(
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ));
    }
}

/// Metadata is what it always is; a definition may only narrow its names.
fn check_metadata(metadata: &At<'_>, errors: &mut Errors) {
    if !metadata.is_set() {
        return;
    }
    if metadata.field("type").text() != "object" {
        errors.push(metadata.field("type").invalid_text("must be object"));
    }
    let only_names = metadata.field("properties").entries().all(|(name, _)| matches!(name, "name" | "generateName"));
    let others = ["type", "description", "properties"];
    if !only_names || metadata.map().into_iter().flatten().any(|(key, _)| !others.contains(&key.as_str())) {
        errors.push(metadata.forbidden(
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        ));
    }
}

/// A default has to be a value of its own schema.
fn check_default(schema: &At<'_>, errors: &mut Errors) {
    let default = schema.field("default");
    if schema.value.get("default").is_none() {
        return;
    }
    let structural = Structural::parse(schema.value);
    let mut value = default.value.clone();
    plain_numbers(&mut value);
    let mut pruned = value.clone();
    prune::prune(&structural, &mut pruned, &mut Vec::new());
    if pruned != value {
        errors.push(default.invalid("must not have unknown fields"));
        return;
    }
    errors.extend(validate::validate(&structural, &value, &default.path, None));
}

/// `anyOf: [{type: integer}, {type: string}]`, alone or as the first of `allOf`, is how an int-or-string may be spelt.
fn is_int_or_string_pattern(schema: &At<'_>) -> bool {
    schema.field("x-kubernetes-int-or-string").is_true()
        && *schema.field("anyOf").value == json!([{"type": "integer"}, {"type": "string"}])
}

/// A branch may ask for values, not for structure.
fn check_branch(branch: &At<'_>, schema: &At<'_>, errors: &mut Errors) {
    for key in ["additionalProperties", "nullable", "default", "title", "description", "type"] {
        let at = branch.field(key);
        let says_nothing = match at.value {
            Value::Bool(flag) => !flag,
            Value::Null => branch.value.get(key).is_none(),
            _ => at.is_empty() && !at.value.is_object(),
        };
        let is_of_two_types = key == "type" && schema.field("x-kubernetes-int-or-string").is_true();
        if !says_nothing && !is_of_two_types {
            errors.push(at.forbidden("must be empty to be structural"));
        }
    }
    for key in [
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
        "x-kubernetes-validations",
    ] {
        let at = branch.field(key);
        if at.is_set() {
            errors.push(at.forbidden("must be undefined to be structural"));
        }
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        branch.field(key).items().for_each(|inner| check_branch(&inner, schema, errors));
    }
    for (key, of_schema) in [("not", schema.clone()), ("items", schema.field("items"))] {
        let inner = branch.field(key);
        if inner.value.is_object() {
            check_branch(&inner, &of_schema, errors);
        }
    }
    let properties = schema.field("properties");
    for (name, inner) in branch.field("properties").entries() {
        check_branch(&inner, &properties.key(name), errors);
        if !properties.key(name).is_set()
            && !schema.field("x-kubernetes-preserve-unknown-fields").is_true()
            && !schema.field("additionalProperties").is_set()
            && branch_is_sound(&inner)
        {
            errors.push(properties.key(name).required(&format!("because it is defined in {}", inner.path)));
        }
    }
}

/// Nothing else is wrong with it.
fn branch_is_sound(branch: &At<'_>) -> bool {
    let mut errors = Errors::new();
    check_branch(branch, branch, &mut errors);
    errors.is_empty()
}
