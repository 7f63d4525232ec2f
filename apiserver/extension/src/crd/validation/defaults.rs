//! Defaults of a schema: values that the schema itself would let pass, its rules among it.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/validation.go.

use crate::crd::embedded;
use crate::crd::rules::Rules;
use proto::schema::structural::{Structural, is_meta_field, plain_numbers, prune, validate};
use serde_json::{Value, json};
use strategy::validation::at::{At, Errors};

/// Every error of every default.
pub fn check(root: &At<'_>, errors: &mut Errors) {
    check_node(root, &Place { is_object: true, way: None }, errors);
}

/// Where a node stands.
struct Place<'p> {
    /// Whether its values have a kind and metadata.
    is_object: bool,
    /// In the kind or the metadata of an object, how one gets here from that object.
    way: Option<Way<'p>>,
}

/// The last step to a node below an object, and the steps before it.
#[derive(Clone, Copy)]
struct Way<'p> {
    /// The field, or none for the items of a list.
    step: Option<&'p str>,
    before: Option<&'p Way<'p>>,
}

impl Way<'_> {
    /// An object with nothing but its kind and this value.
    fn object_with(&self, value: &Value) -> Value {
        let around = match self.step {
            Some(field) => json!({field: value}),
            None => json!([value]),
        };
        if let Some(before) = self.before {
            return before.object_with(&around);
        }
        let mut object = json!({"apiVersion": "validation/v1", "kind": "Validation"});
        if let (Value::Object(object), Value::Object(around)) = (&mut object, around) {
            object.extend(around);
        }
        object
    }
}

fn check_node(schema: &At<'_>, place: &Place<'_>, errors: &mut Errors) {
    if schema.value.get("default").is_some() {
        check_default(schema, place.way.as_ref(), errors);
    }
    let items = schema.field("items");
    if items.is_set() {
        check_node(&items, &below(place, &items, None), errors);
    }
    for (name, property) in schema.field("properties").entries() {
        check_node(&property, &below(place, &property, Some(name)), errors);
    }
}

fn below<'p>(place: &'p Place<'p>, inner: &At<'_>, step: Option<&'p str>) -> Place<'p> {
    let is_object = inner.field("x-kubernetes-embedded-resource").is_true();
    let enters_meta = place.is_object && step.is_some_and(is_meta_field);
    let way = (enters_meta || place.way.is_some()).then_some(Way { step, before: place.way.as_ref() });
    Place { is_object, way: way.filter(|_| !is_object) }
}

fn check_default(schema: &At<'_>, way: Option<&Way<'_>>, errors: &mut Errors) {
    let default = schema.field("default");
    let structural = Structural::parse(schema.value);
    let mut value = default.value.clone();
    plain_numbers(&mut value);
    if way.is_none() {
        let mut pruned = value.clone();
        prune::prune_part(&structural, &mut pruned);
        if pruned != value {
            errors.push(default.invalid("must not have unknown fields"));
        }
    }
    let mut found = Errors::new();
    match way {
        Some(way) => check_in_meta(&default, &way.object_with(&value), &mut found),
        None => embedded::check(&structural, &value, &default.path, &mut found),
    }
    if found.is_empty() {
        found = validate::validate(&structural, &value, &default.path, None);
    }
    if found.is_empty()
        && let Some(rules) = Rules::of(&structural)
    {
        // Once as what stays as it is, and once as what is new.
        found = rules.check(&value, Some(&value), &default.path);
        if found.is_empty() {
            found = rules.check(&value, None, &default.path);
        }
    }
    errors.append(&mut found);
}

/// A default of a part of metadata, judged in an object that has nothing else.
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
