//! Derives declarations, that is types and sizes, from the schemas of custom resources.
//!
//! Corresponds to k8s.io/apiserver/pkg/cel/common SchemaDeclType.

use super::names::escaped;
use crate::{Declaration, MAX_REQUEST_BYTES, Type};
use proto::schema::structural::{Additional, Structural};
use serde_json::Value;
use std::collections::BTreeMap;

/// Least bytes of texts in JSON, with quotes.
const TEXT_BYTES: u64 = 2;
const DURATION_BYTES: u64 = 4;
const DATE_BYTES: u64 = 12;
const DATE_TIME_BYTES: u64 = 22;
/// Most characters of such texts.
const LONGEST_DURATION: u64 = 32;
const LONGEST_DATE_TIME: u64 = 39;
const LONGEST_TEXT: u64 = MAX_REQUEST_BYTES - 2;

/// Adds the fields that rules find in every object and every embedded one, also if the schema has none of them.
pub fn accessible(schema: &Structural, is_root: bool) -> Structural {
    let mut schema = schema.clone();
    for property in schema.properties.values_mut() {
        *property = accessible(property, false);
    }
    schema.items = schema.items.map(|items| Box::new(accessible(&items, false)));
    if let Additional::Schema(values) = &schema.additional {
        schema.additional = Additional::Schema(Box::new(accessible(values, false)));
    }
    if is_root || schema.embedded_resource {
        let text = || Structural { types: vec!["string"], ..Structural::default() };
        let is_text = |schema: Option<&Structural>| schema.is_some_and(|schema| schema.types == ["string"]);
        let meta = schema.properties.get("metadata");
        let is_complete = is_text(schema.properties.get("kind"))
            && is_text(schema.properties.get("apiVersion"))
            && ["name", "generateName"].iter().all(|name| is_text(meta.and_then(|meta| meta.properties.get(*name))));
        if !is_complete {
            let names = ["name", "generateName"].into_iter().map(|name| (name.into(), text())).collect();
            let meta = Structural { types: vec!["object"], properties: names, ..Structural::default() };
            schema.properties.extend([
                ("kind".into(), text()),
                ("apiVersion".into(), text()),
                ("metadata".into(), meta),
            ]);
        }
    }
    schema
}

/// Returns the declaration of a schema; `None` if rules cannot use the value.
pub fn declared(schema: &Structural, name: &str) -> Option<Declaration> {
    if schema.int_or_string {
        let max = schema.value.max_length.map_or(LONGEST_TEXT, bytes_of_characters);
        return Some(Declaration::scalar(Type::Dyn, 1).with_max(max));
    }
    let limit = |max: Option<i64>| max.map(|max| u64::try_from(max).unwrap_or(0));
    match schema.types.as_slice() {
        ["array"] => {
            let items = declared(schema.items.as_deref()?, &format!("{name}.@idx"))?;
            Some(Declaration::list(items, limit(schema.value.max_items)))
        }
        ["object"] => match &schema.additional {
            Additional::Schema(values) => {
                let values = declared(values, &format!("{name}.@elem"))?;
                Some(Declaration::map(values, limit(schema.value.max_properties)))
            }
            _ => Some(object(schema, name)),
        },
        ["string"] => Some(text(schema)),
        ["boolean"] => Some(Declaration::scalar(Type::Bool, 4)),
        ["number"] => Some(Declaration::scalar(Type::Double, 1)),
        ["integer"] => Some(Declaration::scalar(Type::Int, 1)),
        _ => None,
    }
}

fn object(schema: &Structural, name: &str) -> Declaration {
    let mut fields = BTreeMap::new();
    let mut min_bytes = 0;
    for (key, property) in &schema.properties {
        let Some(field) = declared(property, &format!("{name}.{key}")) else { continue };
        // A required field takes its name, quotes, colon and comma. One with a default may be absent from the request.
        if schema.required.contains(key) && property.default.is_none() {
            min_bytes += key.len() as u64 + field.min_bytes + 4;
        }
        fields.extend(escaped(key).map(|key| (key, field)));
    }
    Declaration::object(name, fields, min_bytes)
}

fn text(schema: &Structural) -> Declaration {
    let max_length = schema.value.max_length;
    let max = max_length.map(|max| u64::try_from(max).unwrap_or(0));
    let longest = schema.value.allowed.iter().filter_map(Value::as_str).map(|text| text.len() as u64).max();
    match schema.value.format.as_str() {
        "byte" => Declaration::scalar(Type::Bytes, TEXT_BYTES).with_max(max.unwrap_or(LONGEST_TEXT)),
        "duration" => Declaration::scalar(Type::Duration, DURATION_BYTES).with_max(LONGEST_DURATION),
        "date" => Declaration::scalar(Type::Timestamp, DATE_BYTES).with_max(DATE_BYTES),
        "date-time" => Declaration::scalar(Type::Timestamp, DATE_TIME_BYTES).with_max(LONGEST_DATE_TIME),
        _ => Declaration::scalar(Type::String, TEXT_BYTES)
            .with_max(max_length.map(bytes_of_characters).or(longest).unwrap_or(LONGEST_TEXT)),
    }
}

/// Converts `maxLength`, which counts characters of up to four bytes, to bytes, since requests are measured in bytes.
fn bytes_of_characters(max_length: i64) -> u64 {
    u64::try_from(max_length).unwrap_or(0).saturating_mul(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sizes_follow_from_the_schema() {
        let of = |schema: Value| declared(&Structural::parse(&schema), "selfType").unwrap();
        let size = |schema: Value| of(schema).max_elements;
        assert_eq!(size(json!({"type": "string", "maxLength": 5})), 20);
        assert_eq!(size(json!({"type": "string", "format": "byte", "maxLength": 5})), 5);
        assert_eq!(size(json!({"x-kubernetes-int-or-string": true, "maxLength": 5})), 20);
        assert_eq!(size(json!({"type": "string", "enum": ["a", "abc"]})), 3);
        assert_eq!(size(json!({"type": "string"})), 3_145_726);
        assert_eq!(size(json!({"type": "array", "items": {"type": "string"}})), 1_048_575);
        assert_eq!(size(json!({"type": "array", "maxItems": 7, "items": {"type": "string"}})), 7);
        assert_eq!(size(json!({"type": "object", "additionalProperties": {"type": "integer"}})), 449_389);
        let object = json!({"type": "object", "required": ["a", "b"], "properties": {
            "a": {"type": "string"}, "b": {"type": "string", "default": "x"}, "c-d": {"type": "string"}}});
        assert_eq!(of(object.clone()).min_bytes, 2 + 1 + 2 + 4);
        assert!(of(object).field("c__dash__d").is_some());
        assert!(declared(&Structural::parse(&json!({"x-kubernetes-preserve-unknown-fields": true})), "a").is_none());
    }
}
