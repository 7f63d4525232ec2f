//! Checks that a schema uses only the features of OpenAPI that custom resources support.

use proto::meta::status::FieldError;
use proto::schema::structural::TYPES;
use serde_json::{Value, json};
use strategy::validation::at::{At, Errors};

/// Maximum depth of nested schemas.
const MAX_DEPTH: usize = 64;

pub fn check(root: &At<'_>, errors: &mut Errors) {
    check_node(root, &Position { is_root: true, depth: 0, is_meta: false, no_defaults: None }, errors);
}

/// Tells whether schemas are nested deeper than `MAX_DEPTH`.
pub fn is_too_deep(root: &At<'_>) -> bool {
    fn reaches(schema: &At<'_>, depth: usize) -> bool {
        depth > MAX_DEPTH || inner(schema).iter().any(|inner| reaches(inner, depth + 1))
    }
    reaches(root, 0)
}

/// Tells whether a schema uses a feature that `Structural` cannot represent.
pub fn is_unparsable(schema: &At<'_>) -> bool {
    let unsupported = ["id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"];
    unsupported.iter().any(|key| !schema.field(key).is_empty())
        || schema.field("items").value.is_array()
        || *schema.field("x-kubernetes-preserve-unknown-fields").value == Value::Bool(false)
        || inner(schema).iter().any(is_unparsable)
}

/// Returns the schemas directly below one, in the order in which their errors are reported.
fn inner<'a>(schema: &At<'a>) -> Vec<At<'a>> {
    let one = |key: &str| Some(schema.field(key)).filter(|inner| inner.value.is_object());
    let mut all: Vec<At<'a>> = one("additionalProperties").into_iter().collect();
    all.extend(schema.field("properties").entries().map(|(_, inner)| inner));
    all.extend(one("not"));
    for key in ["allOf", "oneOf", "anyOf"] {
        all.extend(schema.field(key).items());
    }
    all.extend(one("items"));
    all
}

/// The position of a schema below the root, as far as it matters for its checks.
#[derive(Clone, Copy)]
struct Position<'p> {
    is_root: bool,
    depth: usize,
    /// It is the schema of an `apiVersion`, `kind` or `metadata`, or below one.
    is_meta: bool,
    /// The reason why defaults are forbidden, if they are.
    no_defaults: Option<&'p str>,
}

fn check_node(schema: &At<'_>, position: &Position<'_>, errors: &mut Errors) {
    if position.depth > MAX_DEPTH {
        errors.push(schema.forbidden(format!("schemas may not be nested deeper than {MAX_DEPTH} levels")));
        return;
    }
    check_forbidden(schema, position, errors);
    let values = schema.field("additionalProperties");
    if values.is_set() && !schema.field("properties").is_empty() && *values.value != json!(true) {
        errors.push(values.forbidden("additionalProperties and properties are mutual exclusive"));
    }
    let has_meta = position.is_root || schema.field("x-kubernetes-embedded-resource").is_true();
    let below = Position { is_root: false, depth: position.depth + 1, ..*position };
    for inner in inner(schema) {
        let name = inner.path.strip_prefix(&schema.path).unwrap_or_default();
        let meta = META.iter().find(|meta| has_meta && meta.path == name);
        let of_meta = meta.map(|meta| meta.no_defaults).filter(|_| position.is_root);
        let of_values = (name == ".additionalProperties" && position.is_meta).then_some(IN_META_VALUES);
        let no_defaults = of_meta.or(of_values).or(position.no_defaults);
        check_node(&inner, &Position { is_meta: position.is_meta || meta.is_some(), no_defaults, ..below }, errors);
    }
    let keeps = schema.field("x-kubernetes-preserve-unknown-fields");
    if *keeps.value == Value::Bool(false) {
        errors.push(keeps.invalid("must be true or undefined"));
    }
    check_lists_and_maps(schema, errors);
}

const IN_META_VALUES: &str = "inside additionalProperties applying to object metadata";

/// A property that every object has, and the reason why its schema must not set defaults.
struct Meta {
    path: &'static str,
    no_defaults: &'static str,
}

const META: [Meta; 3] = [
    Meta { path: ".properties[metadata]", no_defaults: "in top-level metadata" },
    Meta { path: ".properties[kind]", no_defaults: "in top-level kind" },
    Meta { path: ".properties[apiVersion]", no_defaults: "in top-level apiVersion" },
];

fn check_forbidden(schema: &At<'_>, position: &Position<'_>, errors: &mut Errors) {
    let kind = schema.field("type");
    if !kind.is_empty() && !TYPES.contains(&kind.text()) {
        errors.push(kind.not_supported(&TYPES));
    }
    let default = schema.field("default");
    if let Some(why) = position.no_defaults.filter(|_| default.is_set()) {
        errors.push(default.forbidden(format!("must not be set {why}")));
    }
    for key in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if !schema.field(key).is_empty() {
            errors.push(schema.field(key).forbidden(format!("{key} is not supported")));
        }
    }
    if kind.text() == "null" {
        errors.push(kind.forbidden("type cannot be set to null, use nullable as an alternative"));
    }
    let items = schema.field("items");
    if items.value.is_array() {
        errors.push(items.forbidden("items must be a schema object and not an array"));
    }
    let embedded = schema.field("x-kubernetes-embedded-resource");
    if position.is_meta && embedded.is_true() {
        errors.push(embedded.forbidden("must not be used inside of resource meta"));
    }
    let unique = schema.field("uniqueItems");
    if unique.is_true() {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(unique.forbidden(why));
    }
}

/// Returns the error `required` for an absent value, else `invalid`.
fn required_or_invalid(at: &At<'_>, why: &str) -> FieldError {
    if at.is_empty() { at.required(why) } else { at.invalid(why) }
}

fn check_lists_and_maps(schema: &At<'_>, errors: &mut Errors) {
    let kind = schema.field("type");
    let map_type = schema.field("x-kubernetes-map-type");
    if map_type.is_set() && kind.text() != "object" {
        errors.push(required_or_invalid(&kind, "must be object if x-kubernetes-map-type is specified"));
    }
    map_type.check_optional_enum(&["atomic", "granular"], errors);
    let (list_type, items) = (schema.field("x-kubernetes-list-type"), schema.field("items"));
    if list_type.is_set() && kind.text() != "array" {
        errors.push(required_or_invalid(&kind, "must be array if x-kubernetes-list-type is specified"));
    } else if list_type.text() == "set" {
        check_set_items(&items, errors);
    }
    list_type.check_optional_enum(&["atomic", "set", "map"], errors);
    let keys = schema.field("x-kubernetes-list-map-keys");
    if !keys.is_empty() && list_type.text() != "map" {
        errors.push(required_or_invalid(&list_type, "must be map if x-kubernetes-list-map-keys is non-empty"));
    }
    if list_type.text() == "map" {
        check_map_keys(&keys, &items, errors);
    }
    if matches!(list_type.text(), "set" | "map") && items.field("nullable").is_true() {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {}", list_type.text());
        errors.push(items.field("nullable").forbidden(why));
    }
    if list_type.text() == "map" {
        check_key_properties(&keys, &items, errors);
    }
}

fn check_map_keys(keys: &At<'_>, items: &At<'_>, errors: &mut Errors) {
    if keys.is_empty() {
        errors.push(keys.required("must not be empty if x-kubernetes-list-type is map"));
    }
    let kind = items.field("type");
    if !items.is_set() {
        errors.push(items.required("must have a schema if x-kubernetes-list-type is map"));
        return;
    }
    if items.value.is_array() {
        errors.push(items.invalid("must only have a single schema if x-kubernetes-list-type is map"));
        return;
    }
    if kind.text() != "object" {
        errors.push(kind.invalid_text("must be object if parent array's x-kubernetes-list-type is map"));
        return;
    }
    let mut seen: Vec<&str> = Vec::new();
    for key in keys.items() {
        let of_key = items.field("properties").key(key.text());
        if !of_key.is_set() {
            errors.push(keys.invalid("entries must all be names of item properties"));
        } else if matches!(of_key.field("type").text(), "array" | "object") {
            // The type that Kubernetes shows is that of the items.
            let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            errors.push(of_key.field("type").invalid_as(kind.value, why));
        }
        if seen.contains(&key.text()) {
            errors.push(keys.invalid("must not contain duplicate entries"));
        }
        seen.push(key.text());
    }
}

/// Checks that the properties that identify list items are always set.
fn check_key_properties(keys: &At<'_>, items: &At<'_>, errors: &mut Errors) {
    let required = items.field("required");
    let properties = items.field("properties");
    for (key, property) in keys.items().map(|key| (key.text(), properties.key(key.text()))) {
        if property.is_set() && !required.items().any(|name| name.text() == key) && !property.field("default").is_set()
        {
            errors.push(property.field("default").required(
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ));
        }
        let nullable = property.field("nullable");
        if nullable.is_true() {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(nullable.forbidden(why));
        }
    }
}

fn check_set_items(items: &At<'_>, errors: &mut Errors) {
    let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let (list_type, map_type) = (items.field("x-kubernetes-list-type"), items.field("x-kubernetes-map-type"));
    match items.field("type").text() {
        // The value that Kubernetes shows is that of the other extension.
        "object" if map_type.text() != "atomic" => errors.push(map_type.invalid_as(list_type.value, why)),
        "array" if list_type.is_set() && list_type.text() != "atomic" => errors.push(list_type.invalid(why)),
        _ => {}
    }
}

/// Checks the root of a schema with a status subresource. Only some fields are allowed there.
pub fn check_root_of_status(root: &At<'_>, errors: &mut Errors) {
    const ALLOWED: [(&str, &str); 22] = [
        ("Description", "description"),
        ("Type", "type"),
        ("Format", "format"),
        ("Title", "title"),
        ("Maximum", "maximum"),
        ("ExclusiveMaximum", "exclusiveMaximum"),
        ("Minimum", "minimum"),
        ("ExclusiveMinimum", "exclusiveMinimum"),
        ("MaxLength", "maxLength"),
        ("MinLength", "minLength"),
        ("Pattern", "pattern"),
        ("MaxItems", "maxItems"),
        ("MinItems", "minItems"),
        ("UniqueItems", "uniqueItems"),
        ("MultipleOf", "multipleOf"),
        ("Required", "required"),
        ("Items", "items"),
        ("Properties", "properties"),
        ("ExternalDocs", "externalDocs"),
        ("Example", "example"),
        ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields"),
        ("XValidations", "x-kubernetes-validations"),
    ];
    let kind = root.field("type");
    let is_used =
        |at: &At<'_>| *at.value != Value::Bool(false) && (at.value.is_object() || !at.is_empty() || at.is_true());
    let fields = root.map().into_iter().flatten().map(|(key, _)| key.as_str());
    let mut others =
        fields.filter(|key| !ALLOWED.iter().any(|(_, allowed)| allowed == key) && is_used(&root.field(key)));
    let comes_first = ["id", "$schema", "$ref"].iter().any(|key| !root.field(key).is_empty());
    if !comes_first && !matches!(kind.text(), "" | "object") {
        errors.push(kind.invalid(
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled",
        ));
    } else if others.next().is_some() {
        let names: Vec<&str> = ALLOWED.iter().map(|(go, _)| *go).collect();
        errors.push(root.invalid(format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
            names.join(" ")
        )));
    }
}
