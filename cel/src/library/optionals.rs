//! Functions of optional values.

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
    fn optional.unwrap(list(optional(A))) list(A)
    list(optional(A)).unwrapOpt() list(A)
    list(A).first() optional(A)
    list(A).last() optional(A)
";

pub fn run(name: &str, arguments: &[Value], meter: &mut Meter) -> Outcome {
    match (name, arguments) {
        ("optional.of", [value]) => Ok(Value::some(value.clone())),
        ("optional.ofNonZeroValue", [value]) if !value.is_zero() => Ok(Value::some(value.clone())),
        ("optional.ofNonZeroValue", _) | ("optional.none", []) => Ok(Value::Optional(None)),
        ("hasValue", [Value::Optional(inner)]) => Ok(Value::Bool(inner.is_some())),
        ("value" | "orValue", [Value::Optional(Some(inner)), ..]) => Ok(Value::clone(inner)),
        ("value", [Value::Optional(None)]) => error("optional.none() dereference"),
        ("orValue", [Value::Optional(None), other]) => Ok(other.clone()),
        ("optional.unwrap" | "unwrapOpt", [Value::List(list)]) => {
            meter.work(list.items.len())?;
            let mut found = Vec::new();
            for item in &list.items {
                match item {
                    Value::Optional(inner) => found.extend(inner.as_deref().cloned()),
                    other => return no_overload(name, std::slice::from_ref(other)),
                }
            }
            Ok(Value::list(found))
        }
        ("first", [Value::List(list)]) => {
            Ok(list.items.first().map_or(Value::Optional(None), |item| Value::some(item.clone())))
        }
        ("last", [Value::List(list)]) => {
            Ok(list.items.last().map_or(Value::Optional(None), |item| Value::some(item.clone())))
        }
        ("or", [Value::Optional(None), other]) => Ok(other.clone()),
        ("or", [some, _]) => Ok(some.clone()),
        _ => no_overload(name, arguments),
    }
}
