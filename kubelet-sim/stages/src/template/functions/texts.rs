//! Texts, with Sprig's names.

use crate::template::functions::{Function, MAX_MADE, fixed, many};
use crate::template::value::Value;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proto::go_text;

pub const FUNCTIONS: &[Function] = &[
    fixed("lower", 1, |a, _| Ok(Value::text(a[0].as_text()?.to_lowercase()))),
    fixed("upper", 1, |a, _| Ok(Value::text(a[0].as_text()?.to_uppercase()))),
    fixed("trim", 1, |a, _| Ok(Value::text(a[0].as_text()?.trim()))),
    fixed("trimAll", 2, |a, _| {
        let cut: Vec<char> = a[0].as_text()?.chars().collect();
        Ok(Value::text(a[1].as_text()?.trim_matches(|c| cut.contains(&c))))
    }),
    fixed("trimPrefix", 2, |a, _| {
        let text = a[1].as_text()?;
        Ok(Value::text(text.strip_prefix(a[0].as_text()?).unwrap_or(text)))
    }),
    fixed("trimSuffix", 2, |a, _| {
        let text = a[1].as_text()?;
        Ok(Value::text(text.strip_suffix(a[0].as_text()?).unwrap_or(text)))
    }),
    fixed("replace", 3, |a, _| {
        let (from, to, text) = (a[0].as_text()?, a[1].as_text()?, a[2].as_text()?);
        bounded(text.len().saturating_mul(to.len() + 1))?;
        Ok(Value::text(text.replace(from, to)))
    }),
    fixed("contains", 2, |a, _| Ok(Value::Bool(a[1].as_text()?.contains(a[0].as_text()?)))),
    fixed("hasPrefix", 2, |a, _| Ok(Value::Bool(a[1].as_text()?.starts_with(a[0].as_text()?)))),
    fixed("hasSuffix", 2, |a, _| Ok(Value::Bool(a[1].as_text()?.ends_with(a[0].as_text()?)))),
    fixed("repeat", 2, |a, _| {
        let (count, text) = (usize::try_from(a[0].to_int()).unwrap_or(0), a[1].as_text()?);
        bounded(count.saturating_mul(text.len()))?;
        Ok(Value::text(text.repeat(count)))
    }),
    fixed("trunc", 2, |a, _| {
        let (length, text) = (a[0].to_int(), a[1].as_text()?);
        let kept = usize::try_from(length.unsigned_abs()).unwrap_or(usize::MAX);
        let skipped = if length < 0 { text.chars().count().saturating_sub(kept) } else { 0 };
        Ok(Value::text(text.chars().skip(skipped).take(kept).collect::<String>()))
    }),
    many("quote", 0, |a, _| Ok(Value::text(wrapped(a, go_text::quoted)))),
    many("squote", 0, |a, _| Ok(Value::text(wrapped(a, |text| format!("'{text}'"))))),
    fixed("indent", 2, |a, _| indented(&a[0], a[1].as_text()?).map(Value::text)),
    fixed("nindent", 2, |a, _| Ok(Value::text(format!("\n{}", indented(&a[0], a[1].as_text()?)?)))),
    fixed("splitList", 2, |a, _| {
        let (by, text) = (a[0].as_text()?, a[1].as_text()?);
        Ok(Value::list(text.split(by).map(Value::text).collect()))
    }),
    fixed("join", 2, |a, _| {
        let parts: Vec<String> = match &a[1] {
            Value::List(items) => items.iter().filter(|item| !matches!(item, Value::Nil)).map(Value::shown).collect(),
            other => vec![other.shown()],
        };
        let by = a[0].as_text()?;
        bounded(parts.iter().map(String::len).sum::<usize>() + by.len().saturating_mul(parts.len()))?;
        Ok(Value::text(parts.join(by)))
    }),
    fixed("b64enc", 1, |a, _| Ok(Value::text(STANDARD.encode(a[0].as_text()?)))),
    fixed("b64dec", 1, |a, _| {
        let bytes = STANDARD.decode(a[0].as_text()?).map_err(|error| error.to_string())?;
        String::from_utf8(bytes).map(Value::text).map_err(|error| error.to_string())
    }),
];

fn bounded(length: usize) -> Result<(), String> {
    if length > MAX_MADE { Err(format!("more than {MAX_MADE} bytes")) } else { Ok(()) }
}

fn wrapped(values: &[Value], wrap: impl Fn(&str) -> String) -> String {
    let present = values.iter().filter(|value| !matches!(value, Value::Nil));
    present.map(|value| wrap(&value.shown())).collect::<Vec<_>>().join(" ")
}

fn indented(blanks: &Value, text: &str) -> Result<String, String> {
    let blanks = usize::try_from(blanks.to_int()).unwrap_or(0);
    bounded(blanks.saturating_mul(text.split('\n').count()))?;
    let pad = " ".repeat(blanks);
    Ok(format!("{pad}{}", text.replace('\n', &format!("\n{pad}"))))
}
