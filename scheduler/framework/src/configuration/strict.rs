//! Strict decoding: finds the fields of a file that a type does not have.
//!
//! Corresponds to the strict decoder of k8s.io/apimachinery/pkg/runtime/serializer/json.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Decodes the value at `path`. Adds to `errors` why it cannot be decoded, or the fields that are unknown.
pub fn decode<T: DeserializeOwned + Serialize>(path: &str, value: &Value, errors: &mut Vec<String>) -> Option<T> {
    match serde_path_to_error::deserialize::<_, T>(value) {
        Ok(decoded) => {
            if let Ok(known) = serde_json::to_value(&decoded) {
                add_unknown(path, value, &known, errors);
            }
            Some(decoded)
        }
        Err(error) => {
            let below = error.path().to_string();
            let separator = if below.starts_with(['[', '.']) { "" } else { "." };
            let place = if below == "." { path.to_owned() } else { format!("{path}{separator}{below}") };
            errors.push(format!("{place}: {}", error.inner()));
            None
        }
    }
}

/// Compares a value with what was decoded from it. A field that got lost is unknown.
fn add_unknown(path: &str, given: &Value, known: &Value, errors: &mut Vec<String>) {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => {
            for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
                let below = format!("{path}.{name}");
                match known.get(name) {
                    Some(known) => add_unknown(&below, value, known, errors),
                    None => errors.push(format!("unknown field {below:?}")),
                }
            }
        }
        (Value::Array(given), Value::Array(known)) => {
            for (at, (value, known)) in given.iter().zip(known).enumerate() {
                add_unknown(&format!("{path}[{at}]"), value, known, errors);
            }
        }
        _ => {}
    }
}
