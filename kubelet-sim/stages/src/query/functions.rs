//! The functions of queries, in one table.

use crate::query::values::{Operator, arithmetic, children, compare, is_true, number, type_name};
use regex::Regex;
use serde_json::{Value, json};
use std::borrow::Cow;

/// A function: its name, and how it turns its input and arguments into values.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    pub name: &'static str,
    pub body: Body,
}

#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// Computes one value of the input.
    Input(fn(&Value) -> Result<Value, String>),
    /// Computes one value of the input and of each value of the argument.
    With(fn(&Value, &Value) -> Result<Value, String>),
    /// Applies the argument as a filter.
    Filter(Application),
}

#[derive(Clone, Copy, Debug)]
pub enum Application {
    Empty,
    Select,
    Map,
    Any,
    All,
    First,
}

const TABLE: &[(&str, Body)] = &[
    ("add", Body::Input(add)),
    ("all", Body::Input(|input| fold(input, |items| json!(items.iter().all(is_true))))),
    ("any", Body::Input(|input| fold(input, |items| json!(items.iter().any(is_true))))),
    ("ascii_downcase", Body::Input(|input| Ok(json!(text(input)?.to_ascii_lowercase())))),
    ("ascii_upcase", Body::Input(|input| Ok(json!(text(input)?.to_ascii_uppercase())))),
    ("first", Body::Input(|input| fold(input, |items| items.first().cloned().unwrap_or_default()))),
    (
        "floor",
        Body::Input(|input| match input.as_f64() {
            Some(value) => Ok(number(value.floor())),
            None => Err(format!("cannot round {}", type_name(input))),
        }),
    ),
    ("keys", Body::Input(keys)),
    ("last", Body::Input(|input| fold(input, |items| items.last().cloned().unwrap_or_default()))),
    ("length", Body::Input(length)),
    ("max", Body::Input(|input| fold(input, |items| extreme(items, true)))),
    ("min", Body::Input(|input| fold(input, |items| extreme(items, false)))),
    ("not", Body::Input(|input| Ok(json!(!is_true(input))))),
    ("reverse", Body::Input(|input| fold(input, |items| items.iter().rev().cloned().collect()))),
    ("sort", Body::Input(|input| fold(input, |items| Value::Array(sorted(items))))),
    ("to_entries", Body::Input(entries)),
    ("tojson", Body::Input(|input| Ok(json!(input.to_string())))),
    ("tonumber", Body::Input(to_number)),
    ("tostring", Body::Input(|input| Ok(json!(input.as_str().map_or_else(|| input.to_string(), str::to_owned))))),
    ("type", Body::Input(|input| Ok(json!(type_name(input))))),
    (
        "unique",
        Body::Input(|input| {
            fold(input, |items| {
                let mut items = sorted(items);
                items.dedup_by(|a, b| compare(a, b).is_eq());
                Value::Array(items)
            })
        }),
    ),
    ("contains", Body::With(|input, other| Ok(json!(contains(input, other))))),
    ("endswith", Body::With(|input, end| Ok(json!(text(input)?.ends_with(text(end)?))))),
    ("has", Body::With(has)),
    ("join", Body::With(join)),
    (
        "ltrimstr",
        Body::With(|input, start| Ok(trimmed(input, start, |text, start| text.strip_prefix(start).map(str::to_owned)))),
    ),
    (
        "rtrimstr",
        Body::With(|input, end| Ok(trimmed(input, end, |text, end| text.strip_suffix(end).map(str::to_owned)))),
    ),
    ("split", Body::With(|input, by| Ok(text(input)?.split(text(by)?).map(|part| json!(part)).collect()))),
    ("startswith", Body::With(|input, start| Ok(json!(text(input)?.starts_with(text(start)?))))),
    (
        "test",
        Body::With(|input, pattern| {
            let pattern = Regex::new(text(pattern)?).map_err(|error| error.to_string())?;
            Ok(json!(pattern.is_match(text(input)?)))
        }),
    ),
    ("empty", Body::Filter(Application::Empty)),
    ("select", Body::Filter(Application::Select)),
    ("map", Body::Filter(Application::Map)),
    ("any", Body::Filter(Application::Any)),
    ("all", Body::Filter(Application::All)),
    ("first", Body::Filter(Application::First)),
];

/// Finds a function by its name and its number of arguments.
pub fn find(name: &str, arguments: usize) -> Option<Function> {
    let takes = |body: &Body| match body {
        Body::Input(_) | Body::Filter(Application::Empty) => 0,
        Body::With(_) | Body::Filter(_) => 1,
    };
    let mut rows = TABLE.iter().filter(|(known, body)| *known == name && takes(body) == arguments);
    rows.next().map(|(name, body)| Function { name, body: *body })
}

fn text(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| format!("{} is no string", type_name(value)))
}

fn list(value: &Value) -> Result<&[Value], String> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| format!("{} is no array", type_name(value)))
}

fn fold(input: &Value, compute: impl Fn(&[Value]) -> Value) -> Result<Value, String> {
    Ok(compute(list(input)?))
}

fn sorted(items: &[Value]) -> Vec<Value> {
    let mut items = items.to_vec();
    items.sort_by(compare);
    items
}

fn extreme(items: &[Value], is_highest: bool) -> Value {
    let sorted = sorted(items);
    let item = if is_highest { sorted.last() } else { sorted.first() };
    item.cloned().unwrap_or_default()
}

fn add(input: &Value) -> Result<Value, String> {
    let items = children(Cow::Borrowed(input))?;
    items.iter().try_fold(Value::Null, |sum, item| arithmetic(Operator::Add, &sum, item))
}

fn keys(input: &Value) -> Result<Value, String> {
    match input {
        Value::Object(members) => Ok(members.keys().map(|key| json!(key)).collect()),
        _ => Ok((0..list(input)?.len()).map(|index| json!(index)).collect()),
    }
}

fn length(input: &Value) -> Result<Value, String> {
    Ok(match input {
        Value::Null => json!(0),
        Value::Bool(_) => return Err("boolean has no length".to_owned()),
        Value::Number(value) => number(value.as_f64().unwrap_or_default().abs()),
        Value::String(text) => json!(text.chars().count()),
        Value::Array(items) => json!(items.len()),
        Value::Object(members) => json!(members.len()),
    })
}

fn entries(input: &Value) -> Result<Value, String> {
    let members = input.as_object().ok_or_else(|| format!("{} is no object", type_name(input)))?;
    Ok(members.iter().map(|(key, value)| json!({"key": key, "value": value})).collect())
}

fn to_number(input: &Value) -> Result<Value, String> {
    match input {
        Value::Number(_) => Ok(input.clone()),
        _ => {
            let text = text(input)?;
            let value: f64 = text.trim().parse().map_err(|_| format!("{text:?} is no number"))?;
            Ok(number(value))
        }
    }
}

fn contains(input: &Value, other: &Value) -> bool {
    match (input, other) {
        (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
        (Value::Array(items), Value::Array(parts)) => {
            parts.iter().all(|part| items.iter().any(|item| contains(item, part)))
        }
        (Value::Object(members), Value::Object(parts)) => {
            parts.iter().all(|(key, part)| members.get(key).is_some_and(|member| contains(member, part)))
        }
        (input, other) => compare(input, other).is_eq(),
    }
}

fn has(input: &Value, key: &Value) -> Result<Value, String> {
    match (input, key) {
        (Value::Object(members), Value::String(key)) => Ok(json!(members.contains_key(key))),
        (Value::Array(items), Value::Number(index)) => {
            Ok(json!(index.as_u64().is_some_and(|index| index < items.len() as u64)))
        }
        _ => Err(format!("{} has no keys of type {}", type_name(input), type_name(key))),
    }
}

fn join(input: &Value, by: &Value) -> Result<Value, String> {
    let part = |item: &Value| match item {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(item.to_string()),
        _ => Err(format!("cannot join {}", type_name(item))),
    };
    let parts: Vec<String> = list(input)?.iter().map(part).collect::<Result<_, _>>()?;
    Ok(json!(parts.join(text(by)?)))
}

fn trimmed(input: &Value, by: &Value, trim: impl Fn(&'_ str, &str) -> Option<String>) -> Value {
    match (input, by) {
        (Value::String(text), Value::String(by)) => trim(text, by).map_or_else(|| input.clone(), Value::String),
        _ => input.clone(),
    }
}
