//! Functions of Kubernetes' quantities: `500m`, `2Gi`.

use crate::failure::error;
use crate::meter::Meter;
use crate::value::{Outcome, Value, no_overload};
use proto::meta::quantity::{Format, Quantity};
use std::sync::Arc;

pub const DECLARED: &str = "
    quantity(string) quantity
    isQuantity(string) bool
    quantity.sign() int
    quantity.isInteger() bool
    quantity.asInteger() int
    quantity.asApproximateFloat() double
    quantity.isGreaterThan(quantity) bool
    quantity.isLessThan(quantity) bool
    quantity.compareTo(quantity) int
    quantity.add(quantity) quantity
    quantity.add(int) quantity
    quantity.sub(quantity) quantity
    quantity.sub(int) quantity
";

pub fn run(name: &str, arguments: &[Value], _meter: &mut Meter) -> Outcome {
    let number = |other: &Value| match other {
        Value::Int(number) => Some(Quantity::new(*number, Format::DecimalSI)),
        Value::Quantity(other) => Some(**other),
        _ => None,
    };
    match (name, arguments) {
        ("isQuantity", [Value::String(text)]) => Ok(Value::Bool(Quantity::parse(text).is_ok())),
        ("quantity", [Value::String(text)]) => Quantity::parse(text)
            .map_or_else(|why| error(why.to_string()), |quantity| Ok(Value::Quantity(Arc::new(quantity)))),
        (_, [Value::Quantity(quantity), rest @ ..]) => {
            let other = rest.first().and_then(number);
            match (name, other) {
                ("sign", None) => Ok(Value::Int(quantity.signum().into())),
                ("isInteger", None) => Ok(Value::Bool(is_integer(quantity))),
                ("asInteger", None) if is_integer(quantity) => Ok(Value::Int(quantity.value())),
                ("asInteger", None) => error("cannot convert value to integer"),
                ("asApproximateFloat", None) => Ok(Value::Double(quantity.as_f64())),
                ("isGreaterThan", Some(other)) => Ok(Value::Bool(**quantity > other)),
                ("isLessThan", Some(other)) => Ok(Value::Bool(**quantity < other)),
                ("compareTo", Some(other)) => Ok(Value::Int(quantity.as_ref().cmp(&other) as i64)),
                ("add", Some(other)) => Ok(Value::Quantity(Arc::new(**quantity + other))),
                ("sub", Some(other)) => Ok(Value::Quantity(Arc::new(**quantity - other))),
                _ => no_overload(name, arguments),
            }
        }
        _ => no_overload(name, arguments),
    }
}

/// Returns true for a whole number that fits into 64 bits.
fn is_integer(quantity: &Quantity) -> bool {
    *quantity == Quantity::new(quantity.value(), quantity.format())
}
