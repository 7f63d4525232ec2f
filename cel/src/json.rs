//! Converts JSON without a schema to values.

use super::value::{Key, Value};
use serde_json::Value as Json;

impl Value {
    /// Converts JSON. Whole numbers become `int`, others `double`.
    pub fn of_json(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(flag) => Self::Bool(*flag),
            Json::Number(number) => match number.as_i64() {
                Some(whole) => Self::Int(whole),
                None => Self::Double(number.as_f64().unwrap_or_default()),
            },
            Json::String(text) => Self::string(text),
            Json::Array(items) => Self::list(items.iter().map(Self::of_json).collect()),
            Json::Object(members) => Self::map(
                members.iter().map(|(key, value)| (Key::String(key.as_str().into()), Self::of_json(value))).collect(),
            ),
        }
    }
}
