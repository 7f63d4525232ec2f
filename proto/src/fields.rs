//! Reads fields of an object's JSON, for code that needs too few of them to decode the whole object.

use serde_json::Value;

/// Returns the items of a list, or none if there is no list.
pub fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// Returns a text, empty if absent.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns `metadata.annotations[key]` or `metadata.labels[key]`.
pub fn metadata_entry<'a>(object: &'a Value, map: &str, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get(map)?.get(key)?.as_str()
}
