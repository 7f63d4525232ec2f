//! Reads protobuf messages as trees: the schema turns numbers into names and well-known types into their JSON form.
//!
//! Corresponds to the Unmarshal methods of k8s.io/api and to the JSON forms of Time, Quantity, IntOrString and
//! RawExtension.

mod numbers;

use super::go_time::{self, Precision};
use super::{Properties, Schema, Shape, TypeRef, builtin_type};
use crate::serializer::depth::MAX_DEPTH;
use crate::serializer::protobuf::field::{Payload, Reader, text};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::jiff;
use numbers::Member;
use serde_json::{Map, Value};

/// Reads a message of a type. Keeps empty values, which strict decoding removes afterwards.
pub fn read(target: &TypeRef, bytes: &[u8]) -> Result<Value, String> {
    single(&Schema::of(Shape::Ref(target.clone())), Payload::Bytes(bytes), 0)
}

/// Reads the fields of one message into an object. An embedded struct's fields belong to the same object.
fn message(
    type_name: &str,
    properties: &Properties,
    bytes: &[u8],
    members: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), String> {
    let Some(numbers) = numbers::of(type_name) else {
        return Err(format!("proto: {type_name} is not readable as protobuf"));
    };
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        match numbers.get(&number) {
            Some(Member::Field(name)) => {
                if let Some(schema) = properties.fields.get(*name) {
                    field(schema, name, payload, members, depth)?;
                }
            }
            Some(Member::Embedded(name)) => {
                let package = type_name.rsplit_once('.').map_or("", |(package, _)| package);
                message(&format!("{package}.{name}"), properties, bytes_of(payload)?, members, depth)?;
            }
            // A later version may have more fields. Like Go, skip them.
            None => {}
        }
    }
    Ok(())
}

fn field(
    schema: &Schema,
    name: &str,
    payload: Payload<'_>,
    members: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), String> {
    match &schema.shape {
        Shape::List(items) => {
            let elements = members.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            let Value::Array(elements) = elements else { return Ok(()) };
            match (&items.shape, payload) {
                (Shape::Integer | Shape::Boolean, Payload::Bytes(packed)) => {
                    let mut reader = Reader::new(packed);
                    while !reader.is_empty() {
                        elements.push(single(items, Payload::Varint(reader.varint()?), depth)?);
                    }
                }
                _ => elements.push(single(items, payload, depth)?),
            }
        }
        Shape::Map(values) => {
            let entries = members.entry(name).or_insert_with(|| Value::Object(Map::new()));
            let Value::Object(entries) = entries else { return Ok(()) };
            let (key, value) = entry(values, bytes_of(payload)?, depth)?;
            entries.insert(key, value);
        }
        _ => {
            members.insert(name.to_owned(), single(schema, payload, depth)?);
        }
    }
    Ok(())
}

/// Reads one entry of a map: field 1 is the key, field 2 the value.
fn entry(values: &Schema, bytes: &[u8], depth: usize) -> Result<(String, Value), String> {
    let (mut key, mut value) = (String::new(), None);
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        match (number, &values.shape) {
            (1, _) => key = text(bytes_of(payload)?),
            // The value of a map cannot be a list, so a message wraps it.
            (2, Shape::List(_)) => {
                let mut members = Map::new();
                let mut wrapped = Reader::new(bytes_of(payload)?);
                while let Some((_, payload)) = wrapped.next()? {
                    field(values, "items", payload, &mut members, depth)?;
                }
                value = members.remove("items");
            }
            (2, _) => value = Some(single(values, payload, depth)?),
            _ => {}
        }
    }
    Ok((key, value.unwrap_or(Value::Null)))
}

fn single(schema: &Schema, payload: Payload<'_>, depth: usize) -> Result<Value, String> {
    if depth > MAX_DEPTH {
        return Err("exceeded max depth".to_owned());
    }
    Ok(match &schema.shape {
        Shape::String if &*schema.format == "byte" => Value::from(STANDARD.encode(bytes_of(payload)?)),
        Shape::String => Value::from(text(bytes_of(payload)?)),
        #[allow(clippy::cast_possible_wrap, reason = "negative numbers are written as their two's complement")]
        Shape::Integer => Value::from(varint_of(payload)? as i64),
        Shape::Boolean => Value::from(varint_of(payload)? != 0),
        Shape::Number => number(payload)?,
        Shape::Quantity => first_text(bytes_of(payload)?)?,
        Shape::Time => time(bytes_of(payload)?, Precision::Seconds)?,
        Shape::MicroTime => time(bytes_of(payload)?, Precision::Microseconds)?,
        Shape::IntOrString => int_or_string(bytes_of(payload)?)?,
        Shape::Any => raw_json(bytes_of(payload)?)?,
        Shape::Ref(target) => reference(target, bytes_of(payload)?, depth)?,
        // `field` reads lists and maps. Built-in types have no objects without a name.
        Shape::List(_) | Shape::Map(_) | Shape::Object(_) => Value::Null,
    })
}

fn reference(target: &TypeRef, bytes: &[u8], depth: usize) -> Result<Value, String> {
    if let Some((_, kind)) = target.name.split_once(".JSONSchemaPropsOr") {
        return schema_or(kind, bytes, depth);
    }
    match &target.schema().shape {
        Shape::Object(properties) if properties.preserve_unknown => Ok(Value::Object(Map::new())),
        Shape::Object(properties) => {
            let mut members = Map::new();
            message(&target.name, properties, bytes, &mut members, depth + 1)?;
            Ok(Value::Object(members))
        }
        _ => single(target.schema(), Payload::Bytes(bytes), depth + 1),
    }
}

/// Reads a `JSONSchemaPropsOr…`: a schema, or the boolean, the schemas or the names that may replace it.
fn schema_or(kind: &str, bytes: &[u8], depth: usize) -> Result<Value, String> {
    let props = builtin_type("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
    let (mut schema, mut allows, mut several) = (None, false, Vec::new());
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        match (kind, number) {
            ("Bool", 1) => allows = varint_of(payload)? != 0,
            ("Bool", 2) | ("Array" | "StringArray", 1) => schema = Some(reference(&props, bytes_of(payload)?, depth)?),
            ("Array", 2) => several.push(reference(&props, bytes_of(payload)?, depth)?),
            ("StringArray", 2) => several.push(Value::from(text(bytes_of(payload)?))),
            _ => {}
        }
    }
    Ok(match (kind, schema) {
        (_, Some(schema)) => schema,
        ("Bool", None) => Value::from(allows),
        (_, None) => Value::Array(several),
    })
}

/// Reads a quantity: the text of the first field.
fn first_text(bytes: &[u8]) -> Result<Value, String> {
    let mut found = Value::from("0");
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        if number == 1 {
            found = Value::from(text(bytes_of(payload)?));
        }
    }
    Ok(found)
}

/// Reads seconds and nanoseconds. A message without fields is Go's zero time.
fn time(bytes: &[u8], precision: Precision) -> Result<Value, String> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanoseconds) = (0i64, 0i64);
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        #[allow(clippy::cast_possible_wrap, reason = "negative numbers are written as their two's complement")]
        match number {
            1 => seconds = varint_of(payload)? as i64,
            2 => nanoseconds = varint_of(payload)? as i64,
            _ => {}
        }
    }
    let nanoseconds = i32::try_from(nanoseconds).map_err(|_| "proto: nanoseconds out of range")?;
    let timestamp = jiff::Timestamp::new(seconds, nanoseconds).map_err(|_| "proto: time out of range".to_owned())?;
    let civil = timestamp.to_zoned(jiff::tz::TimeZone::UTC).datetime();
    Ok(Value::from(go_time::written(civil, precision)))
}

/// Reads an IntOrString: field 1 is the type, field 2 the number, field 3 the string.
fn int_or_string(bytes: &[u8]) -> Result<Value, String> {
    let (mut is_string, mut number, mut string) = (false, 0i64, String::new());
    let mut reader = Reader::new(bytes);
    while let Some((field, payload)) = reader.next()? {
        #[allow(clippy::cast_possible_wrap, reason = "negative numbers are written as their two's complement")]
        match field {
            1 => is_string = varint_of(payload)? != 0,
            2 => number = varint_of(payload)? as i64,
            3 => string = text(bytes_of(payload)?),
            _ => {}
        }
    }
    Ok(if is_string { Value::from(string) } else { Value::from(number) })
}

/// Reads the JSON inside a raw extension. An empty one is null.
fn raw_json(bytes: &[u8]) -> Result<Value, String> {
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        if number == 1 {
            let raw = bytes_of(payload)?;
            if raw.is_empty() {
                break;
            }
            return serde_json::from_slice(raw).map_err(|error| error.to_string());
        }
    }
    Ok(Value::Null)
}

fn number(payload: Payload<'_>) -> Result<Value, String> {
    match payload {
        Payload::Fixed64(bits) => Ok(Value::from(f64::from_bits(bits))),
        Payload::Fixed32(bits) => Ok(Value::from(f32::from_bits(bits))),
        _ => Err("proto: wrong wireType for a floating point number".to_owned()),
    }
}

fn bytes_of(payload: Payload<'_>) -> Result<&[u8], String> {
    match payload {
        Payload::Bytes(bytes) => Ok(bytes),
        other => Err(format!("proto: wrong wireType = {}", wire_type(other))),
    }
}

fn varint_of(payload: Payload<'_>) -> Result<u64, String> {
    match payload {
        Payload::Varint(value) => Ok(value),
        other => Err(format!("proto: wrong wireType = {}", wire_type(other))),
    }
}

fn wire_type(payload: Payload<'_>) -> u8 {
    match payload {
        Payload::Varint(_) => 0,
        Payload::Fixed64(_) => 1,
        Payload::Bytes(_) => 2,
        Payload::Fixed32(_) => 5,
    }
}

#[cfg(test)]
mod tests;
