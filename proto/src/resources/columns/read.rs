//! Reads fields for cells. An absent field has an empty value, because tables show objects in any state.

use crate::meta::{label_selector, time};
use serde_json::{Value, json};

pub use crate::fields::text as str_at;

/// Returns a text as a cell, empty if absent.
pub fn text(object: &Value, pointer: &str) -> Value {
    json!(str_at(object, pointer))
}

/// Returns a text as a cell, or `otherwise` if it is absent or empty.
pub fn text_or(object: &Value, pointer: &str, otherwise: &str) -> Value {
    match str_at(object, pointer) {
        "" => json!(otherwise),
        text => json!(text),
    }
}

pub fn int_at(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// Returns a number as a cell, zero if absent.
pub fn number(object: &Value, pointer: &str) -> Value {
    json!(int_at(object, pointer))
}

pub fn flag_or(object: &Value, pointer: &str, otherwise: bool) -> Value {
    json!(object.pointer(pointer).and_then(Value::as_bool).unwrap_or(otherwise))
}

pub fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the number of entries of a list or map.
pub fn count(object: &Value, pointer: &str) -> i64 {
    let length = match object.pointer(pointer) {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Object(fields)) => fields.len(),
        _ => 0,
    };
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// Returns the age of a time: `5m10s`, or `<unknown>` if there is no time.
pub fn since(object: &Value, pointer: &str, now_s: i64) -> Value {
    json!(time::since(str_at(object, pointer), now_s))
}

pub fn is_deleting(object: &Value) -> bool {
    !str_at(object, "/metadata/deletionTimestamp").is_empty()
}

/// Returns labels as `a=1,b=2`, or `<none>`.
pub fn labels(object: &Value, pointer: &str) -> Value {
    let pairs = object.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    let pairs: Vec<String> = pairs.map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect();
    json!(if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") })
}

/// Returns a label selector in its query form, or `<none>` if it selects everything or is absent.
pub fn selector(object: &Value, pointer: &str) -> Value {
    match label_selector::from_value(object.pointer(pointer)).map(|s| s.to_string()) {
        Ok(text) if text.is_empty() => json!("<none>"),
        Ok(text) => json!(text),
        Err(_) => json!("<error>"),
    }
}

/// Joins one field of all containers of a pod spec: the names or the images.
pub fn containers(object: &Value, pod_spec: &str, field: &str) -> Value {
    let containers = items(object, &format!("{pod_spec}/containers"));
    json!(joined(containers.iter().map(|container| str_at(container, field)), ","))
}

pub fn joined<'a>(parts: impl Iterator<Item = &'a str>, separator: &str) -> String {
    parts.collect::<Vec<_>>().join(separator)
}

/// Joins the first `most` entries of a list, and counts the rest: `a,b,c + 2 more...`.
pub fn abridged(list: &[String], most: usize, separator: &str) -> String {
    let shown = list[..list.len().min(most)].join(separator);
    if list.len() > most { format!("{shown} + {} more...", list.len() - most) } else { shown }
}
