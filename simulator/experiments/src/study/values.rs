//! Values of a study that are texts with a format: spans of time, rates and quantities. The schema names the format, and
//! `schema::check` reads it with the functions of this file, so that it can report every wrong text.

use crate::units;
use proto::meta::quantity::Quantity;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::time::Duration;

/// A span of time, written as `1h30m`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span {
    pub duration: Duration,
    text: String,
}

/// Events in a second, written as `30/h`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rate {
    pub per_s: f64,
    text: String,
}

/// A quantity of a resource: a text such as `384Gi`, or a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "serde_json::Value", into = "String")]
pub struct Amount {
    pub quantity: Quantity,
    text: String,
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        units::span(&text).map(|duration| Self { duration, text })
    }
}

impl TryFrom<String> for Rate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        units::rate_per_s(&text).map(|per_s| Self { per_s, text })
    }
}

impl TryFrom<serde_json::Value> for Amount {
    type Error = String;

    fn try_from(value: serde_json::Value) -> Result<Self, String> {
        let text = match value {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        let quantity = Quantity::parse(&text).map_err(|error| error.to_string())?;
        match quantity.signum() < 0 {
            true => Err(format!("{text:?} must not be negative")),
            false => Ok(Self { quantity, text }),
        }
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.text
    }
}

impl From<Rate> for String {
    fn from(rate: Rate) -> Self {
        rate.text
    }
}

impl From<Amount> for String {
    fn from(amount: Amount) -> Self {
        amount.text
    }
}

impl Span {
    /// Returns a whole number of seconds.
    pub fn of_seconds(seconds: u64) -> Self {
        Self { duration: Duration::from_secs(seconds), text: format!("{seconds}s") }
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "span", "description": "A span of time, such as 300ms, 90s, 1h30m or 7d."})
    }
}

impl JsonSchema for Rate {
    fn schema_name() -> Cow<'static, str> {
        "Rate".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "rate", "description": "Events in a unit of time, such as 30/h or 0.5/s."})
    }
}

impl JsonSchema for Amount {
    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string", "number"], "format": "quantity", "description": "A quantity of a resource, such as 500m, 8 or 384Gi."})
    }
}

/// Returns a value of a format, to stand where a wrong one was.
pub fn stand_in(format: &str) -> Option<serde_json::Value> {
    match format {
        "span" => Some("1s".into()),
        "rate" => Some("1/s".into()),
        "seeds" | "quantity" => Some(1.into()),
        _ => None,
    }
}

/// Returns what is wrong with a text of a format.
pub fn problem(format: &str, value: &serde_json::Value) -> Option<String> {
    let text = || value.as_str().unwrap_or_default().to_owned();
    match format {
        "span" => Span::try_from(text()).err(),
        "rate" => Rate::try_from(text()).err(),
        "seeds" if value.is_string() || value.is_array() => {
            serde_json::from_value::<crate::study::Seeds>(value.clone()).err().map(|error| error.to_string())
        }
        "quantity" => Amount::try_from(value.clone()).err(),
        _ => None,
    }
}
