//! `Fault`: a value of the wrong type, and which of several Go would report.

use super::super::{Schema, Shape, go_type};
use crate::serializer::json::go_kind;
use serde_json::Value;

/// One value that cannot be decoded.
#[derive(Debug)]
pub struct Fault {
    path: String,
    /// Types with a decoder of their own stop Go at once; other faults are noted, and the first is reported at the end.
    stops: bool,
    text: Text,
}

#[derive(Debug)]
enum Text {
    /// json: cannot unmarshal `kind` (`number`) into Go struct field `field` of type `go_type`
    Unmarshal {
        kind: &'static str,
        number: Option<String>,
        field: String,
        go_type: String,
        /// What the value is in a tree that Go has decoded without a type: `int64`.
        held: &'static str,
        /// What the field's type is at bottom: `struct`, `map`, `slice` or a plain type.
        wanted: Wanted,
    },
    Own(String),
}

/// The kind of a Go type, as far as conversion tells them apart.
#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    Struct,
    Map,
    Slice,
    String,
    /// `int32`, `bool`, `float64`
    Plain(&'static str),
}

impl Wanted {
    pub fn of(schema: &Schema) -> Self {
        match &schema.shape {
            Shape::Ref(_) | Shape::Object(_) => Self::Struct,
            Shape::Map(_) => Self::Map,
            Shape::List(_) => Self::Slice,
            Shape::Integer => Self::Plain(go_type::integer(&schema.format)),
            Shape::Number => Self::Plain("float64"),
            Shape::Boolean => Self::Plain("bool"),
            _ => Self::String,
        }
    }
}

impl Fault {
    pub fn wrong_kind(path: String, value: &Value, field: String, go_type: String, wanted: Wanted) -> Self {
        let (kind, held) = (go_kind(value), held(value));
        Self { path, stops: false, text: Text::Unmarshal { kind, number: None, field, go_type, held, wanted } }
    }

    /// A number that does not fit an integer is part of the error.
    pub fn unfit_number(path: String, value: &Value, field: String, go_type: &'static str) -> Self {
        let (kind, number, held) = (go_kind(value), Some(value.to_string()), held(value));
        let (go_type, wanted) = (go_type.to_owned(), Wanted::Plain(go_type));
        Self { path, stops: false, text: Text::Unmarshal { kind, number, field, go_type, held, wanted } }
    }

    pub fn own(path: String, message: String) -> Self {
        Self { path, stops: false, text: Text::Own(message) }
    }

    pub fn stopping(self) -> Self {
        Self { stops: true, ..self }
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// Which fault Go reports: the first that stops it, else the first.
    pub fn first(faults: Vec<Self>, order: impl Fn(&str) -> usize) -> Option<Self> {
        faults.into_iter().min_by_key(|fault| (!fault.stops, order(&fault.path)))
    }

    /// The message; `spelling` is how the client wrote the number.
    pub fn message(&self, spelling: Option<&str>) -> String {
        match &self.text {
            Text::Own(message) => message.clone(),
            Text::Unmarshal { kind, number, field, go_type, .. } => {
                let number = number.as_deref().map(|number| spelling.unwrap_or(number));
                let number = number.map_or_else(String::new, |number| format!(" {number}"));
                format!("json: cannot unmarshal {kind}{number} into Go struct field {field} of type {go_type}")
            }
        }
    }

    /// The message where a tree is converted into Go's types instead of read into them.
    ///
    /// Corresponds to `fromUnstructured` in k8s.io/apimachinery/pkg/runtime/converter.go. Types with a decoder of
    /// their own are asked alone, so that they do not know the field.
    pub fn conversion(&self) -> String {
        match &self.text {
            Text::Own(message) if message.starts_with("illegal base64") => {
                format!("error decoding from json: {message}")
            }
            Text::Own(message) => message.clone(),
            Text::Unmarshal { kind, number, go_type, .. } if self.stops => {
                let number = number.as_ref().map_or_else(String::new, |number| format!(" {number}"));
                format!("json: cannot unmarshal {kind}{number} into Go value of type {go_type}")
            }
            Text::Unmarshal { go_type, held, wanted, .. } => match (wanted, *held) {
                (Wanted::Struct, held) => format!("cannot restore struct from: {held}"),
                (Wanted::Map, held) => format!("cannot restore map from {held}"),
                (Wanted::Slice, held) => format!("cannot restore slice from {held}"),
                (Wanted::String, "int64") => format!("cannot convert int64 to {go_type}"),
                (Wanted::String, _) => "unrecognized type: string".to_owned(),
                (Wanted::Plain(_), held @ ("int64" | "float64")) if number_type(go_type) => {
                    format!("cannot convert {held} to {go_type}")
                }
                (Wanted::Plain(wanted), _) => format!("unrecognized type: {wanted}"),
            },
        }
    }
}

fn number_type(go_type: &str) -> bool {
    go_type.starts_with("int") || go_type.starts_with("float")
}

fn held(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}
