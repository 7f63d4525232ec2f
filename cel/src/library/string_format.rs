//! Formatting (`'%s is %d'.format([name, count])`) and `strings.quote`.

use super::time_spans::written_duration;
use crate::failure::{Failure, error};
use crate::meter::Meter;
use crate::value::{Outcome, Value, no_overload};
use proto::meta::go_text;
use std::fmt::Write;

pub const DECLARED: &str = "
    string.format(list(dyn)) string
    fn strings.quote(string) string
";

/// Most digits after the point.
const MAX_PRECISION: usize = 1_000;
const DEFAULT_PRECISION: usize = 6;
/// Deepest nesting of formatted values.
const MAX_DEPTH: usize = 100;

pub fn run(name: &str, arguments: &[Value], meter: &mut Meter) -> Outcome {
    match (name, arguments) {
        ("strings.quote", [Value::String(text)]) => {
            meter.work(text.len() / 10)?;
            Ok(Value::string(quoted(text)))
        }
        ("format", [Value::String(form), Value::List(values)]) => {
            meter.work(form.len() / 10)?;
            let mut out = Writer { text: String::new(), meter };
            out.form(form, &values.items)?;
            Ok(Value::string(out.text))
        }
        _ => no_overload(name, arguments),
    }
}

/// Quotes a text; characters without an escape stay unchanged.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match go_text::escape_letter(c) {
            Some(letter) => out.extend(['\\', letter]),
            None => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A text whose growth is metered.
struct Writer<'m> {
    text: String,
    meter: &'m mut Meter,
}

impl Writer<'_> {
    fn push(&mut self, part: &str) -> Result<(), Failure> {
        self.meter.work(part.len() / 10)?;
        self.text.push_str(part);
        Ok(())
    }

    fn form(&mut self, form: &str, values: &[Value]) -> Result<(), Failure> {
        let (count, mut values) = (values.len(), values.iter());
        let mut rest = form;
        while let Some((before, after)) = rest.split_once('%') {
            self.push(before)?;
            if let Some(after) = after.strip_prefix('%') {
                self.push("%")?;
                rest = after;
                continue;
            }
            let (precision, after) = precision(after)?;
            let mut letters = after.chars();
            let Some(letter) = letters.next() else { return error("unexpected end of string") };
            let Some(value) = values.next() else { return error(format!("index {count} out of range")) };
            self.clause(letter, precision, value)?;
            rest = letters.as_str();
        }
        self.push(rest)?;
        match values.next() {
            None => Ok(()),
            Some(_) => error("too many arguments supplied to string.format"),
        }
    }

    fn clause(&mut self, letter: char, precision: Option<usize>, value: &Value) -> Result<(), Failure> {
        let digits = precision.unwrap_or(DEFAULT_PRECISION);
        let written = match (letter, value) {
            ('s', value) => return self.value(value, false, 0),
            ('d', Value::Int(number)) => number.to_string(),
            ('d', Value::Uint(number)) => number.to_string(),
            ('f' | 'e', value) => match value.double() {
                Some(number) if !number.is_finite() => plain(number),
                Some(number) if letter == 'f' => format!("{number:.digits$}"),
                Some(number) => scientific(number, digits),
                None => return unfit(letter, value),
            },
            ('b', Value::Bool(flag)) => u8::from(*flag).to_string(),
            ('b' | 'x' | 'X' | 'o', Value::Int(number)) => {
                let sign = if *number < 0 { "-" } else { "" };
                format!("{sign}{}", in_base(letter, number.unsigned_abs()))
            }
            ('b' | 'x' | 'X' | 'o', Value::Uint(number)) => in_base(letter, *number),
            ('x' | 'X', Value::String(text)) => in_hex(letter, text.as_bytes()),
            ('x' | 'X', Value::Bytes(bytes)) => in_hex(letter, bytes),
            ('d' | 'b' | 'x' | 'X' | 'o', value) => return unfit(letter, value),
            _ => {
                return error(format!(
                    "could not parse formatting clause: unrecognized formatting clause \"{letter}\""
                ));
            }
        };
        self.push(&written)
    }

    /// Writes a value; texts in lists and maps are quoted.
    fn value(&mut self, value: &Value, is_inner: bool, depth: usize) -> Result<(), Failure> {
        self.meter.work(1)?;
        if depth > MAX_DEPTH {
            return error("value nests too deep to be formatted");
        }
        let written = match value {
            Value::String(text) if is_inner => quoted(text),
            Value::String(text) => return self.push(text),
            Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Value::Null => "null".to_owned(),
            Value::Bool(flag) => flag.to_string(),
            Value::Int(number) => number.to_string(),
            Value::Uint(number) => number.to_string(),
            Value::Double(number) => plain(*number),
            Value::Duration(span) if is_inner => format!("duration(\"{}\")", written_duration(*span)),
            Value::Duration(span) => written_duration(*span),
            Value::Timestamp(time) if is_inner => format!("timestamp(\"{time}\")"),
            Value::Timestamp(time) => time.to_string(),
            Value::Type(name) => (*name).to_owned(),
            Value::List(list) => {
                self.push("[")?;
                for (index, item) in list.items.iter().enumerate() {
                    if index > 0 {
                        self.push(", ")?;
                    }
                    self.value(item, true, depth + 1)?;
                }
                "]".to_owned()
            }
            Value::Map(map) => {
                self.push("{")?;
                for (index, (key, value)) in map.iter().enumerate() {
                    if index > 0 {
                        self.push(", ")?;
                    }
                    self.value(&key.value(), true, depth + 1)?;
                    self.push(":")?;
                    self.value(value, true, depth + 1)?;
                }
                "}".to_owned()
            }
            other => return unfit('s', other),
        };
        self.push(&written)
    }
}

fn unfit<T>(letter: char, value: &Value) -> Result<T, Failure> {
    error(format!("error during formatting: %{letter} cannot be used with {}", value.type_name()))
}

/// Reads the precision, such as `.3` in `%.3f`, and returns it with the rest.
fn precision(text: &str) -> Result<(Option<usize>, &str), Failure> {
    let Some(text) = text.strip_prefix('.') else { return Ok((None, text)) };
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() {
        return Ok((None, rest));
    }
    match digits.parse() {
        Ok(digits) if digits <= MAX_PRECISION => Ok((Some(digits), rest)),
        _ => error(format!("precision {digits} is too large")),
    }
}

fn in_base(letter: char, number: u64) -> String {
    match letter {
        'b' => format!("{number:b}"),
        'o' => format!("{number:o}"),
        'x' => format!("{number:x}"),
        _ => format!("{number:X}"),
    }
}

fn in_hex(letter: char, bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let written = if letter == 'x' { write!(out, "{byte:02x}") } else { write!(out, "{byte:02X}") };
        // Writing to a String cannot fail.
        written.ok();
        out
    })
}

/// Formats `1.5e+03`: the exponent has a sign and at least two digits.
fn scientific(number: f64, digits: usize) -> String {
    let written = format!("{number:.digits$e}");
    let (mantissa, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{mantissa}e{sign}{exponent:0>2}")
}

/// Formats a number without an exponent.
fn plain(number: f64) -> String {
    match number {
        number if number.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        number => number.to_string(),
    }
}
