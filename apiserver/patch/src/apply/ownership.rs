//! The fields that an applied configuration claims, and the errors that keep it from being merged.
//!
//! Corresponds to sigs.k8s.io/structured-merge-diff/typed (ToFieldSet, AsTyped).

use super::atoms::{Atom, Scalar, Type, items};
use super::fields::FieldSet;
use super::path::PathElement;
use serde_json::Value;
use std::collections::BTreeSet;

/// Returns the leaves of a configuration: every value that is set, and every item of an associative list.
pub fn claimed(ty: Type<'_>, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    claim(ty, value, &mut Vec::new(), &mut set);
    set
}

fn claim(ty: Type<'_>, value: &Value, path: &mut Vec<PathElement>, set: &mut FieldSet) {
    match ty.atom(value) {
        Atom::Scalar(_) => set.insert(path),
        Atom::List(list) if list.is_atomic() => set.insert(path),
        Atom::Map(map) if map.atomic => set.insert(path),
        Atom::List(list) => {
            let elements: Vec<_> = items(value).iter().map(|item| list.element(item).ok()).collect();
            for (item, element) in items(value).iter().zip(&elements) {
                let Some(element) = element else { continue };
                let duplicate = elements.iter().flatten().filter(|e| *e == element).count() > 1;
                path.push(element.clone());
                if !duplicate {
                    claim(list.items, item, path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
        Atom::Map(map) => {
            for (name, field) in value.as_object().into_iter().flatten() {
                let (ty, named) = map.field(name).unwrap_or((Type::DEDUCED, false));
                path.push(PathElement::field(name));
                claim(ty, field, path, set);
                let empty = field.is_null() || field.as_object().is_some_and(serde_json::Map::is_empty);
                if empty || !named {
                    set.insert(path);
                }
                path.pop();
            }
        }
    }
}

/// Returns everything that keeps a configuration from being merged, worded as Kubernetes words it.
pub fn type_errors(ty: Type<'_>, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(ty, value, "", &mut found);
    found
}

fn check(ty: Type<'_>, value: &Value, path: &str, found: &mut Vec<String>) {
    let mut complain = |message: String| {
        found.push(if path.is_empty() { message } else { format!("{path}: {message}") });
    };
    if value.is_null() {
        return;
    }
    match ty.atom(value) {
        Atom::Scalar(scalar) => {
            if let Some(message) = scalar_error(scalar, value) {
                complain(message);
            }
        }
        Atom::List(list) => {
            let Value::Array(items) = value else {
                return complain(format!("expected list, got {}", shown_in_go(value)));
            };
            let mut seen = BTreeSet::new();
            for (index, item) in items.iter().enumerate() {
                let element = match list.element(item) {
                    _ if list.is_atomic() => PathElement::Index(index),
                    Ok(element) => element,
                    Err(why) => return found.push(format!("{path}: element {index}: {why}")),
                };
                if !seen.insert(element.clone()) {
                    found.push(format!("{path}: duplicate entries for key {element}"));
                }
                check(list.items, item, &format!("{path}{element}"), found);
            }
        }
        Atom::Map(map) => {
            let Value::Object(fields) = value else {
                return complain(format!("expected map, got {}", shown_in_go(value)));
            };
            for (name, field) in fields {
                match map.field(name) {
                    Some((ty, _)) => check(ty, field, &format!("{path}.{name}"), found),
                    None => return found.push(format!("{path}.{name}: field not declared in schema")),
                }
            }
        }
    }
}

fn scalar_error(scalar: Scalar, value: &Value) -> Option<String> {
    let fits = match scalar {
        Scalar::String => value.is_string(),
        Scalar::Numeric => value.is_number(),
        Scalar::Boolean => value.is_boolean(),
        Scalar::Untyped => !value.is_object() && !value.is_array(),
    };
    if fits {
        return None;
    }
    Some(match scalar {
        Scalar::String => format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value)),
        Scalar::Numeric => format!("expected numeric (int or float), got {}", go_type(value)),
        Scalar::Boolean => format!("expected boolean, got &{{{}}}", shown_in_go(value)),
        Scalar::Untyped => format!("expected any scalar, got &{{{}}}", shown_in_go(value)),
    })
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Prints a value as Go's `%#v` does.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> = fields.iter().map(|(k, v)| format!("{k:?}:{}", go_syntax(v))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        scalar => scalar.to_string(),
    }
}

/// Prints a value as Go's `%v` prints a decoded document.
pub fn shown_in_go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(shown_in_go).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> = fields.iter().map(|(k, v)| format!("{k}:{}", shown_in_go(v))).collect();
            format!("map[{}]", fields.join(" "))
        }
        scalar => scalar.to_string(),
    }
}
