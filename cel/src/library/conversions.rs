//! Conversions between types, and `size`.

use super::time_spans::{instant, parse_duration, parse_timestamp, written_duration};
use crate::failure::error;
use crate::meter::Meter;
use crate::value::{Outcome, Value, no_overload};
use jiff::{SignedDuration, Timestamp};

pub const DECLARED: &str = "
    size(string) int
    size(bytes) int
    size(list(A)) int
    size(map(A, B)) int
    string.size() int
    bytes.size() int
    list(A).size() int
    map(A, B).size() int
    dyn(A) dyn
    type(A) type
    bool(bool) bool
    bool(string) bool
    bytes(bytes) bytes
    bytes(string) bytes
    double(double) double
    double(int) double
    double(string) double
    double(uint) double
    duration(duration) duration
    duration(int) duration
    duration(string) duration
    int(int) int
    int(double) int
    int(duration) int
    int(string) int
    int(timestamp) int
    int(uint) int
    string(string) string
    string(bool) string
    string(bytes) string
    string(double) string
    string(duration) string
    string(int) string
    string(timestamp) string
    string(uint) string
    timestamp(timestamp) timestamp
    timestamp(int) timestamp
    timestamp(string) timestamp
    uint(uint) uint
    uint(double) uint
    uint(int) uint
    uint(string) uint
";

pub fn run(name: &str, arguments: &[Value], _meter: &mut Meter) -> Outcome {
    let [value] = arguments else { return no_overload(name, arguments) };
    match name {
        "size" => Ok(Value::Int(i64::try_from(value.size()).unwrap_or(i64::MAX))),
        "dyn" => Ok(value.clone()),
        "type" => Ok(Value::Type(value.type_name())),
        "bool" => to_bool(value),
        "bytes" => match value {
            Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
            other => Ok(other.clone()),
        },
        "double" => to_double(value),
        "duration" => match value {
            Value::Int(nanos) => Ok(Value::Duration(SignedDuration::from_nanos(*nanos))),
            Value::String(text) => {
                parse_duration(text).map_or_else(|| wrong(value, "duration"), |duration| Ok(Value::Duration(duration)))
            }
            other => Ok(other.clone()),
        },
        "int" => to_int(value),
        "string" => to_string(value),
        "timestamp" => match value {
            Value::Int(seconds) => instant(Timestamp::from_second(*seconds).ok()),
            Value::String(text) => {
                parse_timestamp(text).map_or_else(|| wrong(value, "timestamp"), |time| Ok(Value::Timestamp(time)))
            }
            other => Ok(other.clone()),
        },
        _ => to_uint(value),
    }
}

fn wrong(value: &Value, to: &str) -> Outcome {
    error(format!("type conversion error from '{}' to '{to}'", value.type_name()))
}

fn to_bool(value: &Value) -> Outcome {
    match value {
        Value::String(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => wrong(value, "bool"),
        },
        other => Ok(other.clone()),
    }
}

fn to_double(value: &Value) -> Outcome {
    match value {
        Value::String(text) => {
            // A number out of range is refused, but infinity has a name.
            let is_named = |text: &str| text.trim_start_matches(['+', '-']).starts_with(['i', 'I', 'n', 'N']);
            let parsed = text.parse::<f64>().ok().filter(|number| number.is_finite() || is_named(text));
            parsed.map_or_else(|| wrong(value, "double"), |number| Ok(Value::Double(number)))
        }
        other => other.double().map_or_else(|| wrong(value, "double"), |number| Ok(Value::Double(number))),
    }
}

fn to_int(value: &Value) -> Outcome {
    let number = match value {
        Value::Int(number) => Some(*number),
        Value::Uint(number) => i64::try_from(*number).ok(),
        // Excludes both bounds, since they are not exact as doubles.
        Value::Double(number) => (number.abs() < i64::MAX as f64).then_some(*number as i64),
        Value::Duration(duration) => i64::try_from(duration.as_nanos()).ok(),
        Value::Timestamp(time) => Some(time.as_second()),
        Value::String(text) => return text.parse().map_or_else(|_| wrong(value, "int"), |n| Ok(Value::Int(n))),
        _ => return wrong(value, "int"),
    };
    number.map_or_else(|| error("integer overflow"), |number| Ok(Value::Int(number)))
}

fn to_uint(value: &Value) -> Outcome {
    let number = match value {
        Value::Uint(number) => Some(*number),
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::Double(number) => (*number >= 0.0 && *number < u64::MAX as f64).then_some(*number as u64),
        Value::String(text) => {
            let digits = text.parse().ok().filter(|_| !text.starts_with('+'));
            return digits.map_or_else(|| wrong(value, "uint"), |n| Ok(Value::Uint(n)));
        }
        _ => return wrong(value, "uint"),
    };
    number.map_or_else(|| error("unsigned integer overflow"), |number| Ok(Value::Uint(number)))
}

fn to_string(value: &Value) -> Outcome {
    Ok(Value::string(match value {
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => written_double(*number),
        Value::Timestamp(time) => time.to_string(),
        Value::Duration(duration) => written_duration(*duration),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return error("invalid UTF-8 in bytes, cannot convert to string"),
        },
        other => return Ok(other.clone()),
    }))
}

/// Formats a number like Go's `%g`: from a million on, and below a ten-thousandth, with an exponent.
pub fn written_double(number: f64) -> String {
    match number {
        number if number.is_nan() => return "NaN".to_owned(),
        f64::INFINITY => return "+Inf".to_owned(),
        f64::NEG_INFINITY => return "-Inf".to_owned(),
        _ => {}
    }
    let written = format!("{number:e}");
    let (mantissa, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => number.to_string(),
    }
}
