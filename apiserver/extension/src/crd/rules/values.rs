//! Converts a part of an object to a CEL value, typed by its schema.
//!
//! A value that does not fit its schema becomes an error value. Only rules that read it fail. Corresponds to
//! k8s.io/apiserver/pkg/cel/common UnstructuredToVal.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cel::escaped;
use cel::{Key, List, Map, Value, parse_duration};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use proto::schema::ListType;
use proto::schema::structural::{Additional, Structural};
use serde_json::Value as Json;
use std::sync::Arc;

fn broken(why: impl AsRef<str>) -> Value {
    Value::Broken(why.as_ref().into())
}

/// Converts a value. `schema` must come from `accessible`.
pub fn value(schema: &Structural, json: &Json) -> Value {
    if json.is_null() {
        return match schema.nullable {
            true => Value::Null,
            false => broken("invalid data, got null for schema with nullable=false"),
        };
    }
    if schema.int_or_string {
        return match json {
            Json::String(text) => Value::string(text),
            Json::Number(_) => integer(json),
            _ => broken("invalid data, expected XIntOrString value to be either a string or integer"),
        };
    }
    match (schema.types.as_slice(), json) {
        (["object"], Json::Object(members)) => object(schema, members),
        (["array"], Json::Array(items)) => list(schema, items),
        (["string"], Json::String(text)) => formatted(schema, text),
        (["boolean"], Json::Bool(flag)) => Value::Bool(*flag),
        (["number"], Json::Number(number)) => Value::Double(number.as_f64().unwrap_or_default()),
        (["integer"], Json::Number(_)) => integer(json),
        ([kind], _) => broken(format!("invalid data, expected {kind} for the provided schema with type={kind}")),
        _ => broken("invalid type, expected object, array, number, integer, boolean or string"),
    }
}

fn integer(json: &Json) -> Value {
    let whole = |number: f64| (number.fract() == 0.0 && number.abs() < 9e18).then_some(number as i64);
    match json.as_i64().or_else(|| json.as_f64().and_then(whole)) {
        Some(number) => Value::Int(number),
        None => broken("invalid data, expected int for the provided schema with type=integer"),
    }
}

fn object(schema: &Structural, members: &serde_json::Map<String, Json>) -> Value {
    let key = |name: &str| Key::String(name.into());
    if !schema.properties.is_empty() {
        let known = members.iter().filter_map(|(name, member)| {
            Some((key(&escaped(name)?), value(schema.properties.get(name.as_str())?, member)))
        });
        return Value::map(known.collect());
    }
    match &schema.additional {
        Additional::Schema(values) => {
            Value::map(members.iter().map(|(name, member)| (key(name), value(values, member))).collect())
        }
        _ if schema.preserve_unknown => Value::map(Map::new()),
        _ => broken(
            "invalid object type, expected either Properties or AdditionalProperties with Allows=true and non-empty Schema",
        ),
    }
}

fn list(schema: &Structural, items: &[Json]) -> Value {
    let Some(of_items) = &schema.items else {
        return broken("invalid array type, expected Items with a non-empty Schema");
    };
    let list_type = match schema.list_type {
        Some(ListType::Set) => cel::ListType::Set,
        Some(ListType::Map) => {
            let keys: Vec<String> = schema.list_map_keys.iter().filter_map(|key| escaped(key)).collect();
            cel::ListType::Map(keys.into())
        }
        _ => cel::ListType::Atomic,
    };
    Value::List(Arc::new(List { items: items.iter().map(|item| value(of_items, item)).collect(), list_type }))
}

fn formatted(schema: &Structural, text: &str) -> Value {
    let midnight = |date: Date| date.to_zoned(TimeZone::UTC).ok().map(|zoned| Value::Timestamp(zoned.timestamp()));
    let read = match schema.value.format.as_str() {
        "duration" => parse_duration(text).map(Value::Duration),
        "date" => text.parse::<Date>().ok().and_then(midnight),
        "date-time" => text.parse::<Timestamp>().ok().map(Value::Timestamp),
        "byte" => STANDARD.decode(text).ok().map(|bytes| Value::Bytes(bytes.into())),
        _ => Some(Value::string(text)),
    };
    read.unwrap_or_else(|| broken(format!("invalid {} {text:?}", schema.value.format)))
}
