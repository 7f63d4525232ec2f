//! What may be there or not.

use crate::failure::error;
use crate::meter::Meter;
use crate::value::{Outcome, Value, no_overload};

pub const DECLARED: &str = "
    fn optional.of(A) optional(A)
    fn optional.ofNonZeroValue(A) optional(A)
    fn optional.none() optional(A)
    optional(A).hasValue() bool
    optional(A).value() A
    optional(A).or(optional(A)) optional(A)
    optional(A).orValue(A) A
";

pub fn run(name: &str, arguments: &[Value], _meter: &mut Meter) -> Outcome {
    match (name, arguments) {
        ("optional.of", [value]) => Ok(Value::some(value.clone())),
        ("optional.ofNonZeroValue", [value]) if !value.is_zero() => Ok(Value::some(value.clone())),
        ("optional.ofNonZeroValue", _) | ("optional.none", []) => Ok(Value::Optional(None)),
        ("hasValue", [Value::Optional(inner)]) => Ok(Value::Bool(inner.is_some())),
        ("value" | "orValue", [Value::Optional(Some(inner)), ..]) => Ok(Value::clone(inner)),
        ("value", [Value::Optional(None)]) => error("optional.none() dereference"),
        ("orValue", [Value::Optional(None), other]) => Ok(other.clone()),
        ("or", [Value::Optional(None), other]) => Ok(other.clone()),
        ("or", [some, _]) => Ok(some.clone()),
        _ => no_overload(name, arguments),
    }
}
