//! Writes a tree as YAML: sorted keys, two spaces, list items at their key's column.
//!
//! Corresponds to `yaml.Marshal`; a string is quoted where its plain form would read as something else.

use super::scalar;
use serde_json::Value;

/// A longer key is written behind a question mark, as go-yaml does: parsers do not look far ahead for the colon of a
/// key.
const MAX_PLAIN_KEY: usize = 128;

/// Writes one document, which ends in a line break.
pub fn to_yaml(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(members) if !members.is_empty() => object(&mut out, value, 0),
        Value::Array(items) if !items.is_empty() => list(&mut out, value, 0),
        scalar => {
            inline(&mut out, scalar, 0);
            out.push('\n');
        }
    }
    out
}

fn object(out: &mut String, value: &Value, column: usize) {
    let mut members: Vec<(&String, &Value)> = value.as_object().into_iter().flatten().collect();
    members.sort_unstable_by_key(|(key, _)| *key);
    for (index, (key, member)) in members.into_iter().enumerate() {
        if index > 0 {
            indent(out, column);
        }
        let is_long = key.chars().count() > MAX_PLAIN_KEY;
        if is_long {
            out.push_str("? ");
        }
        text(out, key, column, false);
        if is_long {
            out.push('\n');
            indent(out, column);
        }
        out.push(':');
        match member {
            Value::Object(inner) if !inner.is_empty() => {
                out.push('\n');
                indent(out, column + 2);
                object(out, member, column + 2);
            }
            Value::Array(inner) if !inner.is_empty() => {
                let column = if is_long { column + 2 } else { column };
                out.push('\n');
                indent(out, column);
                list(out, member, column);
            }
            scalar => {
                out.push(' ');
                inline(out, scalar, column + 2);
                out.push('\n');
            }
        }
    }
}

fn list(out: &mut String, value: &Value, column: usize) {
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        if index > 0 {
            indent(out, column);
        }
        out.push_str("- ");
        match item {
            Value::Object(inner) if !inner.is_empty() => object(out, item, column + 2),
            Value::Array(inner) if !inner.is_empty() => list(out, item, column + 2),
            scalar => {
                inline(out, scalar, column + 2);
                out.push('\n');
            }
        }
    }
}

/// Writes a scalar or an empty container, without a line break.
fn inline(out: &mut String, value: &Value, column: usize) {
    match value {
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        Value::String(string) => text(out, string, column, true),
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
}

/// Writes a string in the plainest form that reads back as the same string.
fn text(out: &mut String, string: &str, column: usize, may_be_block: bool) {
    let printable = string.chars().all(|c| matches!(c, '\t' | '\n') || !c.is_control() && c != '\u{feff}');
    if !printable {
        return double_quoted(out, string);
    }
    if string.contains('\n') {
        let blank_start = string.starts_with(|c: char| c.is_whitespace());
        if may_be_block && !blank_start && !string.contains('\t') {
            return block(out, string, column);
        }
        return double_quoted(out, string);
    }
    if !matches!(scalar::resolve(string), Ok(Value::String(_))) || is_date(string) || is_base_60(string) {
        return double_quoted(out, string);
    }
    if is_plain(string) { out.push_str(string) } else { single_quoted(out, string) }
}

/// Returns whether a string of one line needs no quotes.
fn is_plain(string: &str) -> bool {
    let first = string.chars().next().unwrap_or(' ');
    let second_is_blank = string.chars().nth(1).is_none_or(|c| c == ' ');
    !(first.is_whitespace()
        || string.ends_with(|c: char| c.is_whitespace() || c == ':')
        || "#,[]{}&*!|>'\"%@`".contains(first)
        || "-?:".contains(first) && second_is_blank
        || string.starts_with("---")
        || string.starts_with("...")
        || string == "<<"
        || string == "="
        || string.contains(": ")
        || string.contains(" #")
        || string.contains('\t'))
}

/// Returns whether other readers take a string for a timestamp: `2021-03-04`, alone or with a time.
fn is_date(string: &str) -> bool {
    let mut parts = string.splitn(3, '-');
    let mut number = |widths: std::ops::RangeInclusive<usize>| {
        parts.next().is_some_and(|part| widths.contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit()))
    };
    if !number(4..=4) || !number(1..=2) {
        return false;
    }
    let rest = parts.next().unwrap_or_default();
    let day = rest.bytes().take_while(u8::is_ascii_digit).count();
    matches!(day, 1 | 2) && matches!(rest.as_bytes().get(day), None | Some(b'T' | b't' | b' '))
}

/// Returns whether a string is a number of base 60 in YAML 1.1: `1:30`.
fn is_base_60(string: &str) -> bool {
    let mut parts = string.strip_prefix(['-', '+']).unwrap_or(string).split(':');
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    string.contains(':') && parts.next().is_some_and(digits) && parts.all(|part| digits(part) && part.len() <= 2)
}

fn single_quoted(out: &mut String, string: &str) {
    out.push('\'');
    out.push_str(&string.replace('\'', "''"));
    out.push('\'');
}

fn double_quoted(out: &mut String, string: &str) {
    out.push('"');
    for c in string.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{feff}' => out.push_str("\\uFEFF"),
            c if c.is_control() => out.push_str(&format!("\\x{:02X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Writes a block `|` with the chomping that keeps the string's own ending.
fn block(out: &mut String, string: &str, column: usize) {
    let (body, chomping) = match string.strip_suffix('\n') {
        None => (string, "-"),
        Some(body) if body.ends_with('\n') || body.is_empty() => (body, "+"),
        Some(body) => (body, ""),
    };
    out.push('|');
    out.push_str(chomping);
    for line in body.split('\n') {
        out.push('\n');
        if !line.is_empty() {
            indent(out, column);
            out.push_str(line);
        }
    }
}

fn indent(out: &mut String, column: usize) {
    out.extend(std::iter::repeat_n(' ', column));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_lists_and_scalars_lie_as_kubectl_shows_them() {
        let value = json!({
            "kind": "Pod",
            "metadata": {"labels": {"app": "web", "enabled": "true"}, "name": "web-0"},
            "spec": {"containers": [{"image": "nginx:1.25", "name": "c", "args": ["--x=1", "-", ""], "resources": {}}]},
            "text": "a\nb\n", "quoted": "it's: so", "time": "2021-03-04T05:06:07Z", "none": null,
        });
        let text = r#"kind: Pod
metadata:
  labels:
    app: web
    enabled: "true"
  name: web-0
none: null
quoted: 'it''s: so'
spec:
  containers:
  - args:
    - --x=1
    - '-'
    - ""
    image: nginx:1.25
    name: c
    resources: {}
text: |
  a
  b
time: "2021-03-04T05:06:07Z"
"#;
        assert_eq!(to_yaml(&value), text);
    }
}
