//! Arithmetic, comparison, indexing and `in`. Overflow is an error.

use super::time_spans::{instant, span};
use crate::failure::{Failure, error};
use crate::meter::Meter;
use crate::value::{Key, Outcome, Value, appended, insert, no_overload, shown_key};
use std::cmp::Ordering;
use std::sync::Arc;

pub const DECLARED: &str = "
    _?_:_(bool, A, A) A
    _&&_(bool, bool) bool
    _||_(bool, bool) bool
    !_(bool) bool
    @not_strictly_false(bool) bool
    _==_(A, A) bool
    _!=_(A, A) bool
    _#_(bool, bool) bool
    _#_(int, int) bool
    _#_(int, double) bool
    _#_(int, uint) bool
    _#_(uint, uint) bool
    _#_(uint, double) bool
    _#_(uint, int) bool
    _#_(double, double) bool
    _#_(double, int) bool
    _#_(double, uint) bool
    _#_(string, string) bool
    _#_(bytes, bytes) bool
    _#_(timestamp, timestamp) bool
    _#_(duration, duration) bool
    _+_(bytes, bytes) bytes
    _+_(double, double) double
    _+_(duration, duration) duration
    _+_(duration, timestamp) timestamp
    _+_(timestamp, duration) timestamp
    _+_(int, int) int
    _+_(list(A), list(A)) list(A)
    _+_(string, string) string
    _+_(uint, uint) uint
    _-_(double, double) double
    _-_(duration, duration) duration
    _-_(int, int) int
    _-_(timestamp, duration) timestamp
    _-_(timestamp, timestamp) duration
    _-_(uint, uint) uint
    _*_(double, double) double
    _*_(int, int) int
    _*_(uint, uint) uint
    _/_(double, double) double
    _/_(int, int) int
    _/_(uint, uint) uint
    _%_(int, int) int
    _%_(uint, uint) uint
    -_(double) double
    -_(duration) duration
    -_(int) int
    @in(A, list(A)) bool
    @in(A, map(A, B)) bool
    _[_](list(A), int) A
    _[_](map(A, B), A) B
    _[_](optional(list(A)), int) optional(A)
    _[_](optional(map(A, B)), A) optional(B)
    _[?_](list(A), int) optional(A)
    _[?_](map(A, B), A) optional(B)
    _[?_](optional(list(A)), int) optional(A)
    _[?_](optional(map(A, B)), A) optional(B)
    fn cel.@mapInsert(map(A, B), A, B) map(A, B)
    fn cel.@mapInsert(map(A, B), map(A, B)) map(A, B)
";

pub fn run(name: &str, arguments: &[Value], meter: &mut Meter) -> Outcome {
    match (name, arguments) {
        ("!_", [Value::Bool(truth)]) => Ok(Value::Bool(!truth)),
        ("-_", [Value::Int(number)]) => {
            number.checked_neg().map_or_else(|| error("integer overflow"), |n| Ok(Value::Int(n)))
        }
        ("-_", [Value::Double(number)]) => Ok(Value::Double(-number)),
        ("-_", [Value::Duration(duration)]) => span(duration.checked_neg()),
        ("_==_", [a, b]) => a.equals(b, meter).map(Value::Bool),
        ("_!=_", [a, b]) => a.equals(b, meter).map(|same| Value::Bool(!same)),
        ("@in", [wanted, Value::List(list)]) => list.contains(wanted, meter).map(Value::Bool),
        ("@in", [wanted, Value::Map(map) | Value::Defaulting(map, _)]) => {
            Ok(Value::Bool(Key::of(wanted).is_some_and(|key| map.contains_key(&key))))
        }
        ("_[_]", [Value::Optional(_), _]) | ("_[?_]", _) => optional_index(&arguments[0], &arguments[1]),
        ("_[_]", [whole, key]) => index(whole, key),
        ("cel.@mapInsert", [Value::Map(map), rest @ ..]) => {
            meter.work(map.len())?;
            let mut map = map.as_ref().clone();
            match rest {
                [Value::Map(more)] => {
                    for (key, value) in &**more {
                        insert(&mut map, &key.value(), value.clone())?;
                    }
                }
                [key, value] => insert(&mut map, key, value.clone())?,
                _ => return no_overload(name, arguments),
            }
            Ok(Value::map(map))
        }
        ("_<_" | "_<=_" | "_>_" | "_>=_", [a, b]) => Ok(Value::Bool(compare(name, a.compare(b)))),
        ("_+_", [a, b]) => add(a, b, meter),
        (_, [a, b]) => arithmetic(name, a, b),
        _ => no_overload(name, arguments),
    }
}

fn compare(name: &str, found: Option<Ordering>) -> bool {
    // NaN is neither less nor greater.
    let Some(found) = found else { return false };
    match name {
        "_<_" => found.is_lt(),
        "_<=_" => found.is_le(),
        "_>_" => found.is_gt(),
        _ => found.is_ge(),
    }
}

fn index(whole: &Value, key: &Value) -> Outcome {
    match (whole.at(key), whole) {
        (Some(Value::Broken(why)), _) => Err(Failure::Error(why)),
        (Some(value), _) => Ok(value),
        (None, Value::List(_)) => error(format!("index out of bounds: {}", shown_key(key))),
        (None, Value::Map(_)) => error(format!("no such key: {}", shown_key(key))),
        _ => no_overload("_[_]", &[whole.clone(), key.clone()]),
    }
}

fn optional_index(whole: &Value, key: &Value) -> Outcome {
    match whole {
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => optional_index(inner, key),
        whole => Ok(Value::Optional(whole.at(key).map(Arc::new))),
    }
}

fn int(number: Option<i64>) -> Outcome {
    number.map_or_else(|| error("integer overflow"), |number| Ok(Value::Int(number)))
}

fn uint(number: Option<u64>) -> Outcome {
    number.map_or_else(|| error("unsigned integer overflow"), |number| Ok(Value::Uint(number)))
}

/// Adds two values, for `+` and `sum`.
pub fn add(a: &Value, b: &Value, meter: &mut Meter) -> Outcome {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => int(a.checked_add(*b)),
        (Value::Uint(a), Value::Uint(b)) => uint(a.checked_add(*b)),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
        (Value::String(a), Value::String(b)) => {
            meter.work((a.len() + b.len()) / 10)?;
            Ok(Value::string(format!("{a}{b}")))
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            meter.work((a.len() + b.len()) / 10)?;
            Ok(Value::Bytes([&**a, &**b].concat().into()))
        }
        (Value::List(a), Value::List(b)) => {
            let mut list = a.clone();
            appended(&mut list, b, meter)?;
            Ok(Value::List(list))
        }
        (Value::Duration(a), Value::Duration(b)) => span(a.checked_add(*b)),
        (Value::Timestamp(time), Value::Duration(duration)) | (Value::Duration(duration), Value::Timestamp(time)) => {
            instant(time.checked_add(*duration).ok())
        }
        _ => no_overload("_+_", &[a.clone(), b.clone()]),
    }
}

fn arithmetic(name: &str, a: &Value, b: &Value) -> Outcome {
    match (name, a, b) {
        ("_-_", Value::Int(a), Value::Int(b)) => int(a.checked_sub(*b)),
        ("_-_", Value::Uint(a), Value::Uint(b)) => uint(a.checked_sub(*b)),
        ("_-_", Value::Double(a), Value::Double(b)) => Ok(Value::Double(a - b)),
        ("_-_", Value::Duration(a), Value::Duration(b)) => span(a.checked_sub(*b)),
        ("_-_", Value::Timestamp(time), Value::Duration(duration)) => instant(time.checked_sub(*duration).ok()),
        ("_-_", Value::Timestamp(a), Value::Timestamp(b)) => span(Some(a.duration_since(*b))),
        ("_*_", Value::Int(a), Value::Int(b)) => int(a.checked_mul(*b)),
        ("_*_", Value::Uint(a), Value::Uint(b)) => uint(a.checked_mul(*b)),
        ("_*_", Value::Double(a), Value::Double(b)) => Ok(Value::Double(a * b)),
        ("_/_", Value::Int(_), Value::Int(0)) | ("_/_", Value::Uint(_), Value::Uint(0)) => error("division by zero"),
        ("_/_", Value::Int(a), Value::Int(b)) => int(a.checked_div(*b)),
        ("_/_", Value::Uint(a), Value::Uint(b)) => uint(a.checked_div(*b)),
        ("_/_", Value::Double(a), Value::Double(b)) => Ok(Value::Double(a / b)),
        ("_%_", Value::Int(_), Value::Int(0)) | ("_%_", Value::Uint(_), Value::Uint(0)) => error("modulus by zero"),
        ("_%_", Value::Int(a), Value::Int(b)) => int(a.checked_rem(*b)),
        ("_%_", Value::Uint(a), Value::Uint(b)) => uint(a.checked_rem(*b)),
        _ => no_overload(name, &[a.clone(), b.clone()]),
    }
}
