//! Converts between JSON and CEL values.
//!
//! Corresponds to cel-go's adapter for unstructured objects, and to k8s.io/apiserver/pkg/cel/mutation.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cel::{Key, Map, Value};
use serde_json::{Value as Json, json};

/// Converts JSON without a schema: the form of a number decides its type.
pub fn value(json: &Json) -> Value {
    Value::of_json(json)
}

/// Converts a value to JSON; the error says why it cannot be.
pub fn json(value: &Value) -> Result<Json, String> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(flag) => json!(flag),
        Value::Int(number) => json!(number),
        Value::Uint(number) => json!(number),
        Value::Double(number) => json!(number),
        Value::String(text) => json!(&**text),
        Value::Bytes(bytes) => json!(STANDARD.encode(bytes)),
        Value::Timestamp(time) => json!(time.to_string()),
        Value::Duration(duration) => json!(format!("{}s", duration.as_secs_f64())),
        Value::Quantity(quantity) => json!(quantity.to_string()),
        Value::List(list) => Json::Array(list.items.iter().map(json).collect::<Result<_, _>>()?),
        Value::Map(map) => members(map)?,
        Value::Message(message) => members(&message.fields)?,
        Value::Optional(Some(inner)) => json(inner)?,
        other => return Err(format!("unsupported type {}", other.type_name())),
    })
}

fn members(map: &Map) -> Result<Json, String> {
    let mut members = serde_json::Map::new();
    for (key, value) in map {
        let Key::String(name) = key else {
            return Err(format!("unsupported key type {}", key.value().type_name()));
        };
        members.insert(name.to_string(), json(value)?);
    }
    Ok(Json::Object(members))
}

/// Checks that the type name of each part is its path: `Object.spec` must be the field `spec` of `Object`.
pub fn check_places(value: &Value, place: &str) -> Result<(), String> {
    match value {
        Value::Message(message) => {
            if *message.name != *place {
                let found = &message.name;
                return Err(format!(
                    "unexpected type name \"{found}\", expected \"{place}\", which matches field name path from root Object \
                     type"
                ));
            }
            for (key, field) in &message.fields {
                let Key::String(name) = key else { continue };
                check_places(field, &format!("{place}.{name}"))?;
            }
            Ok(())
        }
        // The items of a list have the path of the list.
        Value::List(list) => list.items.iter().try_for_each(|item| check_places(item, place)),
        Value::Map(map) => map.values().try_for_each(|value| check_places(value, place)),
        _ => Ok(()),
    }
}
