//! `Fault`: a value that cannot be decoded, and the choice of the fault that Go reports.

use super::super::{Schema, Shape, go_type};
use crate::serializer::json::go_kind;
use serde_json::Value;

/// One value that cannot be decoded.
#[derive(Debug)]
pub struct Fault {
    path: String,
    /// Whether Go stops at this fault, as it does in types with their own decoder. After other faults it goes on, and
    /// reports the first of them at the end.
    stops: bool,
    text: Wording,
}

#[derive(Debug)]
enum Wording {
    /// json: cannot unmarshal `kind` (`number`) into Go struct field `field` of type `go_type`
    Unmarshal {
        kind: &'static str,
        number: Option<String>,
        field: String,
        go_type: String,
        /// The Go type of the value in a tree that was decoded without a type: `int64`.
        value_type: &'static str,
        /// The kind of the field's Go type.
        wanted: Wanted,
    },
    Message(String),
}

/// The kind of a Go type, as far as the errors of conversion distinguish them.
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
        let (kind, value_type) = (go_kind(value), value_type_of(value));
        Self { path, stops: false, text: Wording::Unmarshal { kind, number: None, field, go_type, value_type, wanted } }
    }

    /// Builds the fault of a number that does not fit an integer type. The error contains the number.
    pub fn unfit_number(path: String, value: &Value, field: String, go_type: &'static str) -> Self {
        let (kind, number, value_type) = (go_kind(value), Some(value.to_string()), value_type_of(value));
        let (go_type, wanted) = (go_type.to_owned(), Wanted::Plain(go_type));
        Self { path, stops: false, text: Wording::Unmarshal { kind, number, field, go_type, value_type, wanted } }
    }

    pub fn with_message(path: String, message: String) -> Self {
        Self { path, stops: false, text: Wording::Message(message) }
    }

    pub fn stopping(self) -> Self {
        Self { stops: true, ..self }
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the fault that Go reports: the first one that stops it, else the first of all.
    pub fn first(faults: Vec<Self>, order: impl Fn(&str) -> usize) -> Option<Self> {
        faults.into_iter().min_by_key(|fault| (!fault.stops, order(&fault.path)))
    }

    /// Returns the message. `spelling` is the number as the client wrote it.
    pub fn message(&self, spelling: Option<&str>) -> String {
        match &self.text {
            Wording::Message(message) => message.clone(),
            Wording::Unmarshal { kind, number, field, go_type, .. } => {
                let number = number.as_deref().map(|number| spelling.unwrap_or(number));
                let number = number.map_or_else(String::new, |number| format!(" {number}"));
                format!("json: cannot unmarshal {kind}{number} into Go struct field {field} of type {go_type}")
            }
        }
    }

    /// Returns the message of a tree that is converted into Go's types, not decoded from text.
    ///
    /// Corresponds to `fromUnstructured` in k8s.io/apimachinery/pkg/runtime/converter.go. The message of a type with
    /// its own decoder does not name the field, because that decoder does not know it.
    pub fn conversion(&self) -> String {
        match &self.text {
            Wording::Message(message) if message.starts_with("illegal base64") => {
                format!("error decoding from json: {message}")
            }
            Wording::Message(message) => message.clone(),
            Wording::Unmarshal { kind, number, go_type, .. } if self.stops => {
                let number = number.as_ref().map_or_else(String::new, |number| format!(" {number}"));
                format!("json: cannot unmarshal {kind}{number} into Go value of type {go_type}")
            }
            Wording::Unmarshal { go_type, value_type, wanted, .. } => match (wanted, *value_type) {
                (Wanted::Struct, value_type) => format!("cannot restore struct from: {value_type}"),
                (Wanted::Map, value_type) => format!("cannot restore map from {value_type}"),
                (Wanted::Slice, value_type) => format!("cannot restore slice from {value_type}"),
                (Wanted::String, "int64") => format!("cannot convert int64 to {go_type}"),
                (Wanted::String, _) => "unrecognized type: string".to_owned(),
                (Wanted::Plain(_), value_type @ ("int64" | "float64")) if number_type(go_type) => {
                    format!("cannot convert {value_type} to {go_type}")
                }
                (Wanted::Plain(wanted), _) => format!("unrecognized type: {wanted}"),
            },
        }
    }
}

fn number_type(go_type: &str) -> bool {
    go_type.starts_with("int") || go_type.starts_with("float")
}

fn value_type_of(value: &Value) -> &'static str {
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
