//! Objects inside objects: `x-kubernetes-embedded-resource` asks for a kind and for sound metadata.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta.

use super::lists::below;
use super::{Structural, members};
use serde_json::Value;

/// Calls `visit` with the path and the value of every embedded resource.
pub fn each<'v>(schema: &Structural, value: &'v Value, visit: &mut dyn FnMut(&str, &'v Value)) {
    walk(schema, value, "", visit);
}

fn walk<'v>(schema: &Structural, value: &'v Value, path: &str, visit: &mut dyn FnMut(&str, &'v Value)) {
    if schema.embedded_resource && value.is_object() {
        visit(path, value);
    }
    match value {
        Value::Object(_) => {
            for (name, member) in members(value) {
                let Some(inner) = schema.field(name) else { continue };
                let is_named = schema.properties.contains_key(name.as_str());
                walk(inner, member, &below(path, name, is_named), visit);
            }
        }
        Value::Array(items) => {
            let Some(of_items) = &schema.items else { return };
            for (index, item) in items.iter().enumerate() {
                walk(of_items, item, &format!("{path}[{index}]"), visit);
            }
        }
        _ => {}
    }
}
