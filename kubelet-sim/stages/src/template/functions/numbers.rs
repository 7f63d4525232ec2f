//! Arithmetic, with Sprig's names.

use crate::template::functions::{Function, MAX_MADE, fixed, many};
use crate::template::value::Value;

pub const FUNCTIONS: &[Function] = &[
    fixed("int", 1, |a, _| Ok(Value::Int(a[0].to_int()))),
    fixed("int64", 1, |a, _| Ok(Value::Int(a[0].to_int()))),
    fixed("float64", 1, |a, _| Ok(Value::Float(a[0].to_float()))),
    fixed("atoi", 1, |a, _| Ok(Value::Int(a[0].as_text()?.parse().unwrap_or(0)))),
    fixed("toString", 1, |a, _| Ok(Value::text(a[0].shown()))),
    fixed("add1", 1, |a, _| whole(a[0].to_int().checked_add(1))),
    many("add", 0, |a, _| whole(a.iter().try_fold(0_i64, |sum, value| sum.checked_add(value.to_int())))),
    many("mul", 1, |a, _| whole(a.iter().try_fold(1_i64, |product, value| product.checked_mul(value.to_int())))),
    fixed("sub", 2, |a, _| whole(a[0].to_int().checked_sub(a[1].to_int()))),
    fixed("div", 2, |a, _| divided(a, i64::checked_div)),
    fixed("mod", 2, |a, _| divided(a, i64::checked_rem)),
    many("max", 1, |a, _| Ok(Value::Int(a.iter().map(Value::to_int).max().unwrap_or(0)))),
    many("min", 1, |a, _| Ok(Value::Int(a.iter().map(Value::to_int).min().unwrap_or(0)))),
    fixed("floor", 1, |a, _| Ok(Value::Float(a[0].to_float().floor()))),
    fixed("ceil", 1, |a, _| Ok(Value::Float(a[0].to_float().ceil()))),
    fixed("until", 1, |a, _| counted(0, a[0].to_int(), 1)),
    fixed("untilStep", 3, |a, _| counted(a[0].to_int(), a[1].to_int(), a[2].to_int())),
];

fn whole(value: Option<i64>) -> Result<Value, String> {
    value.map(Value::Int).ok_or_else(|| "integer overflow".to_owned())
}

fn divided(arguments: &[Value], divide: fn(i64, i64) -> Option<i64>) -> Result<Value, String> {
    match (arguments[0].to_int(), arguments[1].to_int()) {
        (_, 0) => Err("integer divide by zero".to_owned()),
        (a, b) => whole(divide(a, b)),
    }
}

/// Counts from one number up or down to another, which is left out.
fn counted(from: i64, to: i64, step: i64) -> Result<Value, String> {
    let step = if step == 0 { return Ok(Value::list(Vec::new())) } else { i128::from(step) };
    let (from, to) = (i128::from(from), i128::from(to));
    let count = ((to - from) / step + i128::from((to - from) % step != 0)).max(0);
    if count > MAX_MADE as i128 {
        return Err(format!("more than {MAX_MADE} numbers"));
    }
    Ok(Value::list((0..count).map(|index| Value::Int((from + index * step) as i64)).collect()))
}
