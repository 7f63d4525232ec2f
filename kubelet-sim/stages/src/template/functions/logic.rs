//! Comparison, choice and printing.

use crate::template::functions::{Function, fixed, many};
use crate::template::printf::printf;
use crate::template::value::Value;
use std::cmp::Ordering;

pub const FUNCTIONS: &[Function] = &[
    fixed("not", 1, |a, _| Ok(Value::Bool(!a[0].is_true()))),
    many("eq", 2, |a, _| {
        let mut is_equal = false;
        for other in &a[1..] {
            is_equal |= a[0].compare(other)? == Some(Ordering::Equal);
        }
        Ok(Value::Bool(is_equal))
    }),
    fixed("ne", 2, |a, _| Ok(Value::Bool(a[0].compare(&a[1])? != Some(Ordering::Equal)))),
    fixed("lt", 2, |a, _| ordered(a, Ordering::is_lt)),
    fixed("le", 2, |a, _| ordered(a, Ordering::is_le)),
    fixed("gt", 2, |a, _| ordered(a, Ordering::is_gt)),
    fixed("ge", 2, |a, _| ordered(a, Ordering::is_ge)),
    many("print", 0, |a, _| Ok(Value::text(printed(a)))),
    many("println", 0, |a, _| Ok(Value::text(format!("{}\n", shown(a).join(" "))))),
    many("printf", 1, |a, _| Ok(Value::text(printf(a[0].as_text()?, &a[1..])))),
    many("default", 1, |a, _| {
        let given = a.get(1).filter(|given| !given.is_empty());
        Ok(given.unwrap_or(&a[0]).clone())
    }),
    fixed("empty", 1, |a, _| Ok(Value::Bool(a[0].is_empty()))),
    many("coalesce", 1, |a, _| Ok(a.iter().find(|value| !value.is_empty()).cloned().unwrap_or(Value::Nil))),
    many("all", 0, |a, _| Ok(Value::Bool(a.iter().all(|value| !value.is_empty())))),
    many("any", 0, |a, _| Ok(Value::Bool(a.iter().any(|value| !value.is_empty())))),
    fixed("ternary", 3, |a, _| Ok(if a[2].is_true() { a[0].clone() } else { a[1].clone() })),
    fixed("fail", 1, |a, _| Err(a[0].as_text()?.to_owned())),
    fixed("kindOf", 1, |a, _| {
        Ok(Value::text(match &a[0] {
            Value::Nil => "invalid",
            Value::List(_) => "slice",
            Value::Number(_) => "string",
            other => other.type_name(),
        }))
    }),
];

fn ordered(arguments: &[Value], holds: fn(Ordering) -> bool) -> Result<Value, String> {
    match (&arguments[0], &arguments[1]) {
        (Value::Bool(_) | Value::Nil, _) | (_, Value::Bool(_) | Value::Nil) => {
            Err("invalid type for comparison".to_owned())
        }
        (a, b) => Ok(Value::Bool(a.compare(b)?.is_some_and(holds))),
    }
}

fn shown(values: &[Value]) -> Vec<String> {
    values.iter().map(Value::shown).collect()
}

/// Writes values one behind the other, with a blank between two of which neither is a text.
fn printed(values: &[Value]) -> String {
    let mut out = String::new();
    for (index, value) in values.iter().enumerate() {
        let is_text = |value: &Value| matches!(value, Value::Text(_));
        if index > 0 && !is_text(value) && !is_text(&values[index - 1]) {
            out.push(' ');
        }
        out.push_str(&value.shown());
    }
    out
}
