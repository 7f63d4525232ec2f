//! Finds duplicate items in lists of type `set` and `map`.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype.

use super::{Structural, walk};
use crate::meta::status::FieldError;
use crate::schema::ListType;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Returns an error for every item that repeats an earlier one.
pub fn duplicates(schema: &Structural, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, value, "", &mut |schema, value, path| {
        let Value::Array(items) = value else { return };
        match schema.list_type {
            Some(ListType::Set) => repeated(items, path, Value::clone, &mut errors),
            Some(ListType::Map) => repeated(items, path, |item| keys_of(schema, item), &mut errors),
            _ => {}
        }
    });
    errors
}

/// Returns the path of a member: `spec.a`, or `spec[a]` for the key of a map.
pub fn below(path: &str, name: &str, is_named: bool) -> String {
    match (path.is_empty(), is_named) {
        (true, _) => name.to_owned(),
        (false, true) => format!("{path}.{name}"),
        (false, false) => format!("{path}[{name}]"),
    }
}

fn repeated(items: &[Value], path: &str, key: impl Fn(&Value) -> Value, errors: &mut Vec<FieldError>) {
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let key = key(item);
        if !seen.insert(key.to_string()) {
            errors.push(FieldError::duplicate(format!("{path}[{index}]"), &key));
        }
    }
}

/// Returns the keys that identify an item of a list of type `map`.
pub fn keys_of(schema: &Structural, item: &Value) -> Value {
    let mut keys = Map::new();
    for key in &schema.list_map_keys {
        if let Some(value) = item.get(&**key) {
            keys.insert(key.to_string(), value.clone());
        }
    }
    Value::Object(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sets_and_maps_hold_an_item_once() {
        let schema = Structural::parse(&json!({"type": "object", "properties": {
            "st": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "mp": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
            "at": {"type": "array", "items": {"type": "string"}},
        }}));
        let value = json!({
            "st": ["x", "y", "x", "y"], "mp": [{"k": "a", "v": 1}, {"k": "b"}, {"k": "a"}], "at": ["a", "a"],
        });
        let found: Vec<String> = duplicates(&schema, &value).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            ["mp[2]: Duplicate value: {\"k\":\"a\"}", "st[2]: Duplicate value: \"x\"", "st[3]: Duplicate value: \"y\"",]
        );
    }
}
