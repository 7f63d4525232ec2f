//! Decodes a tree in place, by a walk along its schema.

use super::super::{Properties, Schema, Shape, TypeRef, Written, go_time, go_type};
use super::fault::{Fault, Wanted};
use super::place::Place;
use crate::meta::quantity::Quantity;
use crate::serializer::depth::{MAX_DEPTH, TOO_DEEP};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

const SCHEMA_OR: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOr";
const SCHEMA_PROPS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

#[derive(Default)]
pub struct Walk {
    pub faults: Vec<Fault>,
    /// Paths of fields that the type does not have.
    pub unknown: Vec<String>,
    /// Whether to record the paths of parts without a schema. Only the check for duplicate keys needs them.
    pub notes_opaque: bool,
    pub opaque: Vec<String>,
}

impl Walk {
    /// Decodes a value that is not null.
    fn value(&mut self, schema: &Schema, value: &mut Value, place: &Place<'_>) {
        match &schema.shape {
            Shape::Ref(target) => self.reference(target, value, place),
            Shape::Object(properties) => self.object(properties, "", value, place),
            Shape::Map(values) => self.map(values, schema, value, place),
            Shape::List(items) => self.list(items, schema, value, place),
            Shape::String if &*schema.format == "byte" => self.bytes(value, place),
            Shape::String if value.is_string() => {}
            Shape::Boolean if value.is_boolean() => {}
            Shape::Number if value.is_number() => {}
            Shape::String | Shape::Boolean | Shape::Number => self.wrong_kind(schema, value, place),
            Shape::Integer => self.integer(schema, value, place),
            Shape::IntOrString => self.int_or_string(value, place),
            Shape::Quantity => self.quantity(value, place),
            Shape::Time => self.time(value, go_time::Precision::Seconds, place),
            Shape::MicroTime => self.time(value, go_time::Precision::Microseconds, place),
            Shape::Any => self.note_opaque(place),
        }
    }

    pub fn reference(&mut self, target: &TypeRef, value: &mut Value, place: &Place<'_>) {
        if place.depth > MAX_DEPTH {
            self.faults.push(Fault::with_message(place.path(), TOO_DEEP.to_owned()).stopping());
            return;
        }
        let schema = target.schema();
        match &schema.shape {
            Shape::Object(properties) => self.object(properties, &target.name, value, place),
            Shape::Any if target.name.starts_with(SCHEMA_OR) => self.schema_or(value, place),
            _ => self.value(schema, value, place),
        }
    }

    /// Decodes a `JSONSchemaPropsOr…`: a schema, or a boolean, a list of schemas or a list of names.
    fn schema_or(&mut self, value: &mut Value, place: &Place<'_>) {
        let props = super::super::builtin_type(SCHEMA_PROPS);
        match value {
            Value::Object(_) => self.reference(&props, value, place),
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate().filter(|(_, item)| item.is_object()) {
                    self.reference(&props, item, &place.index(index));
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, properties: &Properties, name: &str, value: &mut Value, place: &Place<'_>) {
        let Value::Object(members) = value else {
            let go_type = if name.is_empty() { "struct".to_owned() } else { go_type::of(&reference_to(name)) };
            let fault = Fault::wrong_kind(place.path(), value, place.go_path(), go_type, Wanted::Struct);
            self.faults.push(fault);
            return;
        };
        if properties.preserve_unknown {
            return self.note_opaque(place);
        }
        members.retain(|key, member| match properties.fields.get(key.as_str()) {
            Some(field) => self.keep_field(field, member, &place.field(name, key)),
            None => {
                self.unknown.push(place.key(key).path());
                false
            }
        });
        fill(properties, members);
    }

    /// Decodes a field. Returns whether Go would write it.
    fn keep_field(&mut self, field: &Schema, value: &mut Value, place: &Place<'_>) -> bool {
        if value.is_null() {
            return false;
        }
        self.value(field, value, place);
        match field.written {
            Written::UnlessEmpty => !is_empty(value),
            Written::AsGiven => !value.is_null(),
            // Protobuf has no empty lists and maps, so Kubernetes reads them back from its store as null.
            // Deviation: a list or map that Go always writes and that is given without items (`spec.limits: []`) is
            // null from the start, while Kubernetes makes it null when it stores it. So no manager owns it in
            // `managedFields`.
            Written::Always if matches!(field.shape, Shape::List(_) | Shape::Map(_)) => {
                !(is_empty(value) && place.is_stored_as_protobuf())
            }
            Written::Always | Written::AlwaysNull => true,
        }
    }

    fn map(&mut self, values: &Schema, schema: &Schema, value: &mut Value, place: &Place<'_>) {
        let Value::Object(members) = value else { return self.wrong_kind(schema, value, place) };
        for (key, member) in members.iter_mut() {
            if member.is_null() {
                *member = if &*values.format == "byte" { Value::from("") } else { zero(values) };
            } else {
                self.value(values, member, &place.key(key));
            }
        }
    }

    fn list(&mut self, items: &Schema, schema: &Schema, value: &mut Value, place: &Place<'_>) {
        let Value::Array(elements) = value else { return self.wrong_kind(schema, value, place) };
        for (index, element) in elements.iter_mut().enumerate() {
            if element.is_null() {
                *element = zero(items);
            } else {
                self.value(items, element, &place.index(index));
            }
        }
    }

    fn integer(&mut self, schema: &Schema, value: &Value, place: &Place<'_>) {
        if !value.is_number() {
            return self.wrong_kind(schema, value, place);
        }
        let go_type = go_type::integer(&schema.format);
        let fits = value.as_i64().is_some_and(|number| go_type == "int64" || i32::try_from(number).is_ok());
        if !fits {
            self.faults.push(Fault::unfit_number(place.path(), value, place.go_path(), go_type));
        }
    }

    fn int_or_string(&mut self, value: &Value, place: &Place<'_>) {
        const INT32: &str = "int32";
        match value {
            Value::String(_) => {}
            Value::Number(number) if number.as_i64().is_some_and(|number| i32::try_from(number).is_ok()) => {}
            Value::Number(_) => {
                self.faults.push(Fault::unfit_number(place.path(), value, place.go_path(), INT32).stopping());
            }
            other => {
                let wanted = Wanted::Plain(INT32);
                let fault = Fault::wrong_kind(place.path(), other, place.go_path(), INT32.to_owned(), wanted);
                self.faults.push(fault.stopping());
            }
        }
    }

    fn quantity(&mut self, value: &mut Value, place: &Place<'_>) {
        let spelt = match &*value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match canonical_quantity(spelt.trim()) {
            Ok(text) => *value = Value::String(text),
            Err(message) => self.faults.push(Fault::with_message(place.path(), message).stopping()),
        }
    }

    fn time(&mut self, value: &mut Value, precision: go_time::Precision, place: &Place<'_>) {
        let Value::String(text) = &*value else {
            let fault = Fault::wrong_kind(place.path(), value, place.go_path(), "string".to_owned(), Wanted::String);
            self.faults.push(fault.stopping());
            return;
        };
        match go_time::canonical(text, precision) {
            Ok(time) => *value = time.map_or(Value::Null, Value::String),
            Err(message) => self.faults.push(Fault::with_message(place.path(), message).stopping()),
        }
    }

    fn bytes(&mut self, value: &mut Value, place: &Place<'_>) {
        let Value::String(text) = &*value else {
            let fault = Fault::wrong_kind(place.path(), value, place.go_path(), "[]uint8".to_owned(), Wanted::Slice);
            self.faults.push(fault);
            return;
        };
        // Go ignores line breaks when it reads, and writes none.
        let joined: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
        match STANDARD.decode(&joined) {
            Ok(_) if joined.len() == text.len() => {}
            Ok(_) => *value = Value::String(joined),
            Err(error) => {
                let message = format!("illegal base64 data at input byte {}", base64_offset(&error, joined.len()));
                self.faults.push(Fault::with_message(place.path(), message));
            }
        }
    }

    fn wrong_kind(&mut self, schema: &Schema, value: &Value, place: &Place<'_>) {
        let go_type = match place.as_field() {
            Some((owner, field)) => go_type::of_field(schema, owner, field),
            None => go_type::of(schema),
        };
        self.faults.push(Fault::wrong_kind(place.path(), value, place.go_path(), go_type, Wanted::of(schema)));
    }

    fn note_opaque(&mut self, place: &Place<'_>) {
        if self.notes_opaque {
            self.opaque.push(place.path());
        }
    }
}

fn reference_to(name: &str) -> Schema {
    Schema::of(Shape::Ref(TypeRef::declared(name)))
}

/// Returns the position of the first bad byte, as Go counts it.
fn base64_offset(error: &base64::DecodeError, length: usize) -> usize {
    match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => *at,
        base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => length - length % 4,
    }
}

/// Returns the canonical form of a quantity. Like Go, keeps a text that differs from it in a plus sign or an `E` alone.
pub fn canonical_quantity(text: &str) -> Result<String, String> {
    let canonical = Quantity::parse(text).map_err(|error| error.to_string())?.to_string();
    let bare = text.strip_prefix('+').unwrap_or(text);
    let exponent_in_lower_case = |text: &str| match text.split_once('E') {
        Some((digits, exponent)) if exponent.bytes().any(|byte| byte.is_ascii_digit()) => {
            format!("{digits}e{exponent}")
        }
        _ => text.to_owned(),
    };
    Ok(if exponent_in_lower_case(bare) == canonical { text.to_owned() } else { canonical })
}

/// Adds the fields that Go always writes.
fn fill(properties: &Properties, members: &mut Map<String, Value>) {
    for name in &properties.always {
        if !members.contains_key(&**name) {
            let field = &properties.fields[name];
            let value = if field.written == Written::AlwaysNull { Value::Null } else { zero(field) };
            members.insert(name.to_string(), value);
        }
    }
}

/// Returns Go's zero value in JSON.
pub fn zero(schema: &Schema) -> Value {
    match &schema.shape {
        Shape::String if &*schema.format == "byte" => Value::Null,
        Shape::String => Value::from(""),
        Shape::Integer | Shape::Number | Shape::IntOrString => Value::from(0),
        Shape::Boolean => Value::from(false),
        Shape::Quantity => Value::from("0"),
        Shape::List(_) | Shape::Map(_) | Shape::Time | Shape::MicroTime | Shape::Any => Value::Null,
        Shape::Ref(target) => zero(target.schema()),
        Shape::Object(properties) => {
            let mut members = Map::new();
            fill(properties, &mut members);
            Value::Object(members)
        }
    }
}

/// Returns whether `omitempty` omits a value.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}
