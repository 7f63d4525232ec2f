//! Functions of texts; indexes count characters.

use crate::failure::{Failure, error};
use crate::meter::Meter;
use crate::value::{Outcome, Value, no_overload};

pub const DECLARED: &str = "
    string.contains(string) bool
    string.startsWith(string) bool
    string.endsWith(string) bool
    string.charAt(int) string
    string.indexOf(string) int
    string.indexOf(string, int) int
    string.lastIndexOf(string) int
    string.lastIndexOf(string, int) int
    string.lowerAscii() string
    string.upperAscii() string
    string.replace(string, string) string
    string.replace(string, string, int) string
    string.split(string) list(string)
    string.split(string, int) list(string)
    string.substring(int) string
    string.substring(int, int) string
    string.trim() string
    list(string).join() string
    list(string).join(string) string
";

/// Work of making one item of a list.
const ITEM: usize = 10;

pub fn run(name: &str, arguments: &[Value], meter: &mut Meter) -> Outcome {
    match (name, arguments) {
        ("join", [Value::List(list), rest @ ..]) => {
            let separator = match rest {
                [Value::String(separator)] => &**separator,
                _ => "",
            };
            join(&list.items, separator, meter)
        }
        (_, [Value::String(text), rest @ ..]) => {
            meter.work(text.len() / 10)?;
            of_text(name, text, rest, meter).unwrap_or_else(|| no_overload(name, arguments))
        }
        _ => no_overload(name, arguments),
    }
}

fn of_text(name: &str, text: &str, rest: &[Value], meter: &mut Meter) -> Option<Outcome> {
    Some(match (name, rest) {
        ("contains", [Value::String(part)]) => Ok(Value::Bool(text.contains(&**part))),
        ("startsWith", [Value::String(part)]) => Ok(Value::Bool(text.starts_with(&**part))),
        ("endsWith", [Value::String(part)]) => Ok(Value::Bool(text.ends_with(&**part))),
        ("charAt", [Value::Int(index)]) => char_at(text, *index),
        ("indexOf", [Value::String(part)]) => Ok(first_index(text, part, 0)),
        ("indexOf" | "lastIndexOf", [Value::String(part), Value::Int(from)]) => indexed(name, text, part, *from),
        ("lastIndexOf", [Value::String(part)]) => Ok(last_index(text, part, usize::MAX)),
        ("lowerAscii", []) => Ok(Value::string(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Value::string(text.to_ascii_uppercase())),
        ("trim", []) => Ok(Value::string(text.trim())),
        ("replace", [Value::String(old), Value::String(new)]) => replace(text, old, new, -1, meter),
        ("replace", [Value::String(old), Value::String(new), Value::Int(most)]) => {
            replace(text, old, new, *most, meter)
        }
        ("split", [Value::String(by)]) => split(text, by, -1, meter),
        ("split", [Value::String(by), Value::Int(most)]) => split(text, by, *most, meter),
        ("substring", [Value::Int(from)]) => substring(text, *from, None),
        ("substring", [Value::Int(from), Value::Int(to)]) => substring(text, *from, Some(*to)),
        _ => return None,
    })
}

/// Checks an index in a text; the end is allowed.
fn inside(text: &str, index: i64) -> Result<usize, Failure> {
    match usize::try_from(index).ok().filter(|at| *at <= text.chars().count()) {
        Some(at) => Ok(at),
        None => error(format!("index out of range: {index}")),
    }
}

/// Searches from or up to an index. An index behind the end finds nothing, and the empty text is found everywhere.
fn indexed(name: &str, text: &str, part: &str, at: i64) -> Outcome {
    if part.is_empty() {
        return Ok(Value::Int(at));
    }
    let Ok(place) = usize::try_from(at) else { return error(format!("index out of range: {at}")) };
    if place >= text.chars().count() {
        return Ok(Value::Int(-1));
    }
    Ok(if name == "indexOf" { first_index(text, part, place) } else { last_index(text, part, place) })
}

fn char_at(text: &str, index: i64) -> Outcome {
    let at = inside(text, index)?;
    Ok(Value::string(text.chars().nth(at).map(String::from).unwrap_or_default()))
}

/// Returns the byte offset of a character.
fn offset(text: &str, at: usize) -> usize {
    text.char_indices().nth(at).map_or(text.len(), |(offset, _)| offset)
}

fn counted(text: &str, found: Option<usize>) -> Value {
    found.map_or(Value::Int(-1), |offset| Value::count(text[..offset].chars().count()))
}

fn first_index(text: &str, part: &str, from: usize) -> Value {
    let start = offset(text, from);
    counted(text, text[start..].find(part).map(|found| start + found))
}

/// Finds the last occurrence of `part` that begins at `upto` or before.
fn last_index(text: &str, part: &str, upto: usize) -> Value {
    let end = offset(text, upto).saturating_add(part.len()).min(text.len());
    // The end may be in the middle of a character.
    let end = (end..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
    let found = text[..end].rfind(part).filter(|found| text[..*found].chars().count() <= upto);
    counted(text, found)
}

fn substring(text: &str, from: i64, to: Option<i64>) -> Outcome {
    if let Some(to) = to.filter(|to| from > *to) {
        return error(format!("invalid substring range. start: {from}, end: {to}"));
    }
    let start = inside(text, from)?;
    let end = match to {
        Some(to) => inside(text, to)?,
        None => text.chars().count(),
    };
    Ok(Value::string(&text[offset(text, start)..offset(text, end)]))
}

/// Replaces up to `most` occurrences; all if it is negative.
fn replace(text: &str, old: &str, new: &str, most: i64, meter: &mut Meter) -> Outcome {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let count = text.matches(old).count().min(most);
    meter.work((text.len() + count.saturating_mul(new.len())) / 10)?;
    Ok(Value::string(text.replacen(old, new, count)))
}

fn split(text: &str, by: &str, most: i64, meter: &mut Meter) -> Outcome {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if most == 0 {
        return Ok(Value::list(Vec::new()));
    }
    if by.is_empty() {
        let count = text.chars().count().min(most);
        meter.work(count.saturating_mul(ITEM))?;
        let mut items: Vec<Value> =
            text.chars().take(count.saturating_sub(1)).map(|c| Value::string(c.to_string())).collect();
        if count > 0 {
            items.push(Value::string(&text[offset(text, count - 1)..]));
        }
        return Ok(Value::list(items));
    }
    meter.work((text.matches(by).count() + 1).min(most).saturating_mul(ITEM))?;
    Ok(Value::list(text.splitn(most, by).map(Value::string).collect()))
}

fn join(items: &[Value], separator: &str, meter: &mut Meter) -> Outcome {
    let mut joined = String::new();
    for (index, item) in items.iter().enumerate() {
        let Value::String(text) = item else { return no_overload("join", std::slice::from_ref(item)) };
        meter.work((text.len() + separator.len()) / 10)?;
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text);
    }
    Ok(Value::string(joined))
}
