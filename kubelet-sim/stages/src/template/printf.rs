//! `printf`: the verbs of Go's fmt that templates use.

use crate::template::value::Value;
use proto::go_text;

/// Longest width or precision.
const MAX_WIDTH: usize = 1_000;

/// The part of a verb between `%` and its letter.
#[derive(Default)]
struct Flags {
    is_left: bool,
    is_zero: bool,
    is_signed: bool,
    width: usize,
    precision: Option<usize>,
}

pub fn printf(format: &str, arguments: &[Value]) -> String {
    let (mut out, mut chars, mut arguments) = (String::new(), format.chars().peekable(), arguments.iter());
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut flags = Flags::default();
        while let Some(flag) = chars.next_if(|c| matches!(c, '-' | '0' | '+' | ' ' | '#')) {
            flags.is_left |= flag == '-';
            flags.is_zero |= flag == '0';
            flags.is_signed |= flag == '+';
        }
        let mut number = || {
            let mut found = None;
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                let digit = digit as usize - '0' as usize;
                found = Some((found.unwrap_or(0) * 10 + digit).min(MAX_WIDTH));
            }
            found
        };
        flags.width = number().unwrap_or(0);
        if chars.next_if_eq(&'.').is_some() {
            let mut precision = 0;
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                precision = (precision * 10 + digit as usize - '0' as usize).min(MAX_WIDTH);
            }
            flags.precision = Some(precision);
        }
        match chars.next() {
            None => out.push_str("%!(NOVERB)"),
            Some('%') => out.push('%'),
            Some(verb) => match arguments.next() {
                None => out.push_str(&format!("%!{verb}(MISSING)")),
                Some(value) => out.push_str(&padded(&formatted(verb, value, &flags), &flags)),
            },
        }
    }
    let left: Vec<String> = arguments.map(|value| format!("{}={}", go_type(value), value.shown())).collect();
    if !left.is_empty() {
        out.push_str(&format!("%!(EXTRA {})", left.join(", ")));
    }
    out
}

fn formatted(verb: char, value: &Value, flags: &Flags) -> String {
    let wrong = || format!("%!{verb}({}={})", go_type(value), value.shown());
    match (verb, value) {
        ('v', Value::Int(_)) | ('d', Value::Int(_)) => signed(&value.shown(), flags),
        ('v', _) => value.shown(),
        ('s', Value::Text(_) | Value::Number(_)) => {
            let text = value.shown();
            flags.precision.map_or(text.clone(), |length| text.chars().take(length).collect())
        }
        ('s', Value::List(_) | Value::Map(_)) => value.shown(),
        ('q', Value::Text(text)) => go_text::quoted(text),
        ('t', Value::Bool(_)) => value.shown(),
        ('x', Value::Int(value)) => format!("{value:x}"),
        ('X', Value::Int(value)) => format!("{value:X}"),
        ('x', Value::Text(text)) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
        ('f', Value::Float(value)) => signed(&format!("{value:.*}", flags.precision.unwrap_or(6)), flags),
        ('g', Value::Float(_)) => value.shown(),
        _ => wrong(),
    }
}

fn signed(text: &str, flags: &Flags) -> String {
    if flags.is_signed && !text.starts_with('-') { format!("+{text}") } else { text.to_owned() }
}

fn padded(text: &str, flags: &Flags) -> String {
    let missing = flags.width.saturating_sub(text.chars().count());
    match (flags.is_left, flags.is_zero, text.strip_prefix('-')) {
        (true, ..) => format!("{text}{}", " ".repeat(missing)),
        (_, true, Some(digits)) => format!("-{}{digits}", "0".repeat(missing)),
        (_, true, None) => format!("{}{text}", "0".repeat(missing)),
        _ => format!("{}{text}", " ".repeat(missing)),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Nil => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int",
        Value::Float(_) => "float64",
        Value::Number(_) => "json.Number",
        Value::Text(_) => "string",
        Value::List(_) => "[]interface {}",
        Value::Map(_) => "map[string]interface {}",
    }
}
