//! jq's values: their types, order, truth, parts and arithmetic.

use serde_json::{Value, json};
use std::borrow::Cow;
use std::cmp::Ordering;

/// Compares two values. The order of types is null, false, true, numbers, texts, lists, objects.
pub fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let pairs = a.iter().zip(b).map(|(a, b)| compare(a, b));
            pairs.into_iter().find(|order| order.is_ne()).unwrap_or(a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => a.keys().cmp(b.keys()).then_with(|| {
            let pairs = a.values().zip(b.values()).map(|(a, b)| compare(a, b));
            pairs.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        }),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(false) => 1,
        Value::Bool(true) => 2,
        Value::Number(_) => 3,
        Value::String(_) => 4,
        Value::Array(_) => 5,
        Value::Object(_) => 6,
    }
}

/// Returns whether jq takes a value for true: everything but null and false.
pub fn is_true(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

/// Returns a number; a whole one as such.
pub fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 { json!(value as i64) } else { json!(value) }
}

pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// Returns the items of a list or the members of an object.
pub fn children(value: Cow<'_, Value>) -> Result<Vec<Cow<'_, Value>>, String> {
    match value {
        Cow::Borrowed(Value::Array(items)) => Ok(items.iter().map(Cow::Borrowed).collect()),
        Cow::Borrowed(Value::Object(members)) => Ok(members.values().map(Cow::Borrowed).collect()),
        Cow::Owned(Value::Array(items)) => Ok(items.into_iter().map(Cow::Owned).collect()),
        Cow::Owned(Value::Object(members)) => Ok(members.into_iter().map(|(_, value)| Cow::Owned(value)).collect()),
        other => Err(format!("cannot iterate over {}", type_name(&other))),
    }
}

/// Adds, subtracts, multiplies or divides.
pub fn arithmetic(operator: Operator, a: &Value, b: &Value) -> Result<Value, String> {
    let refused = || {
        let (a, b) = (type_name(a), type_name(b));
        Err(format!("cannot do arithmetic with {a} and {b}"))
    };
    match (operator, a, b) {
        (Operator::Add, Value::Null, other) | (Operator::Add, other, Value::Null) => Ok(other.clone()),
        (Operator::Add, Value::String(a), Value::String(b)) => Ok(Value::String(format!("{a}{b}"))),
        (Operator::Add, Value::Array(a), Value::Array(b)) => Ok(Value::Array(a.iter().chain(b).cloned().collect())),
        (Operator::Subtract, Value::Array(a), Value::Array(b)) => {
            Ok(Value::Array(a.iter().filter(|item| !b.contains(item)).cloned().collect()))
        }
        (_, Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap_or_default(), b.as_f64().unwrap_or_default());
            let is_by_zero = matches!(operator, Operator::Divide | Operator::Remainder) && b == 0.0;
            if is_by_zero {
                return Err("cannot divide by zero".to_owned());
            }
            Ok(number(match operator {
                Operator::Add => a + b,
                Operator::Subtract => a - b,
                Operator::Multiply => a * b,
                Operator::Divide => a / b,
                Operator::Remainder => a.trunc() % b.trunc(),
            }))
        }
        _ => refused(),
    }
}
