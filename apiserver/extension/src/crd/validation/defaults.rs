//! Validates the defaults in a schema: each must be valid by the schema itself, CEL rules included.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/validation.go.

use crate::crd::embedded;
use crate::crd::rules::Rules;
use proto::schema::structural::{Structural, is_meta_field, plain_numbers, prune, validate};
use serde_json::{Value, json};
use strategy::validation::at::{At, Errors};

/// Adds all errors of all defaults.
pub fn check(root: &At<'_>, errors: &mut Errors) {
    check_node(root, &Surroundings { is_object: true, meta_path: None }, errors);
}

/// The surroundings of a schema node, as far as its default depends on them.
struct Surroundings<'p> {
    /// The values are objects with a kind and metadata.
    is_object: bool,
    /// The path of the node in its object, if it is in the object's apiVersion, kind or metadata.
    meta_path: Option<MetaPath<'p>>,
}

/// A path below an object, from its end to its begin.
#[derive(Clone, Copy)]
struct MetaPath<'p> {
    /// The last field; `None` for the items of a list.
    field: Option<&'p str>,
    parent: Option<&'p MetaPath<'p>>,
}

impl MetaPath<'_> {
    /// Returns an object that has nothing but its kind, and the value at this path.
    fn object_with(&self, value: &Value) -> Value {
        let wrapped = match self.field {
            Some(field) => json!({field: value}),
            None => json!([value]),
        };
        if let Some(parent) = self.parent {
            return parent.object_with(&wrapped);
        }
        let mut object = json!({"apiVersion": "validation/v1", "kind": "Validation"});
        if let (Value::Object(object), Value::Object(wrapped)) = (&mut object, wrapped) {
            object.extend(wrapped);
        }
        object
    }
}

fn check_node(schema: &At<'_>, around: &Surroundings<'_>, errors: &mut Errors) {
    if schema.value.get("default").is_some() {
        check_default(schema, around.meta_path.as_ref(), errors);
    }
    let items = schema.field("items");
    if items.is_set() {
        check_node(&items, &below(around, &items, None), errors);
    }
    for (name, property) in schema.field("properties").entries() {
        check_node(&property, &below(around, &property, Some(name)), errors);
    }
}

/// Returns the surroundings of a property, or of list items when `field` is `None`.
fn below<'p>(around: &'p Surroundings<'p>, inner: &At<'_>, field: Option<&'p str>) -> Surroundings<'p> {
    let is_object = inner.field("x-kubernetes-embedded-resource").is_true();
    let enters_meta = around.is_object && field.is_some_and(is_meta_field);
    let parent = around.meta_path.as_ref();
    let path = (enters_meta || parent.is_some()).then_some(MetaPath { field, parent });
    Surroundings { is_object, meta_path: path.filter(|_| !is_object) }
}

fn check_default(schema: &At<'_>, meta_path: Option<&MetaPath<'_>>, errors: &mut Errors) {
    let default = schema.field("default");
    let structural = Structural::parse(schema.value);
    let mut value = default.value.clone();
    plain_numbers(&mut value);
    if meta_path.is_none() {
        let mut pruned = value.clone();
        prune::prune_part(&structural, &mut pruned);
        if pruned != value {
            errors.push(default.invalid("must not have unknown fields"));
        }
    }
    let mut found = Errors::new();
    match meta_path {
        Some(path) => check_in_meta(&default, &path.object_with(&value), &mut found),
        None => embedded::check(&structural, &value, &default.path, &mut found),
    }
    if found.is_empty() {
        found = validate::validate(&structural, &value, &default.path, None);
    }
    if found.is_empty()
        && let Some(rules) = Rules::of(&structural)
    {
        // The rules must hold for an update that changes nothing, and for a new value.
        found = rules.check(&value, Some(&value), &default.path);
        if found.is_empty() {
            found = rules.check(&value, None, &default.path);
        }
    }
    errors.append(&mut found);
}

/// Checks a default in metadata, as part of an object that has nothing else.
fn check_in_meta(default: &At<'_>, object: &Value, errors: &mut Errors) {
    let mut found = Errors::new();
    embedded::check_object(&At::root(object), &mut found);
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    match found.as_slice() {
        [] => {}
        [one] => errors.push(default.invalid(format!("must result in valid metadata: {one}"))),
        several => errors.push(default.invalid(format!("must result in valid metadata: [{}]", several.join(", ")))),
    }
}
