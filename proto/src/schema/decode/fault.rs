//! `Fault`: a value of the wrong type, and which of several Go would report.

use crate::wire::json::go_kind;
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
    },
    Own(String),
}

impl Fault {
    pub fn wrong_kind(path: String, value: &Value, field: String, go_type: String) -> Self {
        Self { path, stops: false, text: Text::Unmarshal { kind: go_kind(value), number: None, field, go_type } }
    }

    /// A number that does not fit an integer is part of the error.
    pub fn unfit_number(path: String, value: &Value, field: String, go_type: String) -> Self {
        let number = Some(value.to_string());
        Self { path, stops: false, text: Text::Unmarshal { kind: go_kind(value), number, field, go_type } }
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
            Text::Unmarshal { kind, number, field, go_type } => {
                let number = number.as_deref().map(|number| spelling.unwrap_or(number));
                let number = number.map_or_else(String::new, |number| format!(" {number}"));
                format!("json: cannot unmarshal {kind}{number} into Go struct field {field} of type {go_type}")
            }
        }
    }
}
