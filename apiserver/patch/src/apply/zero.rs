//! The object that a creation is compared with: no field is set, except those that are always serialized.
//!
//! Corresponds to the zero value of a Go type, as runtime.ObjectCreater makes it.

use proto::schema::{Schema, Shape, Written};
use serde_json::{Map, Value, json};

/// Returns the zero object of a schema. It is `{}` for custom resources, which always serialize nothing.
pub fn zero(schema: &Schema) -> Value {
    let mut object = Map::new();
    if let Shape::Object(properties) = &schema.resolve().shape {
        for name in &properties.always {
            if let Some(field) = properties.fields.get(name) {
                object.insert(name.to_string(), zero_field(field));
            }
        }
    }
    Value::Object(object)
}

/// Returns the empty value of a field that is always serialized; `None` for one that is left out when empty.
pub fn always(schema: &Schema, name: &str) -> Option<Value> {
    let Shape::Object(properties) = &schema.resolve().shape else { return None };
    let written = properties.always.iter().any(|always| &**always == name);
    written.then(|| properties.fields.get(name).map(zero_field)).flatten()
}

fn zero_field(schema: &Schema) -> Value {
    if schema.written == Written::AlwaysNull {
        return Value::Null;
    }
    match &schema.resolve().shape {
        Shape::Object(_) => zero(schema),
        Shape::String if &*schema.format != "byte" => json!(""),
        Shape::Integer | Shape::Number => json!(0),
        Shape::Boolean => json!(false),
        _ => Value::Null,
    }
}
