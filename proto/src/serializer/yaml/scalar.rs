//! Resolves plain YAML scalars: null, a boolean, a number, or text.
//!
//! Corresponds to `resolve` of go-yaml 2, which follows YAML 1.1: `yes`, `on` and `y` are true, `0777` is octal.

use serde_json::{Number, Value};

/// The reason why a scalar has no JSON form.
#[derive(Debug, PartialEq)]
pub enum Unfit {
    /// `.inf`, `.nan`: JSON has no such numbers.
    NotFinite(&'static str),
}

/// Returns the value of an unquoted scalar without a tag.
pub fn resolve(text: &str) -> Result<Value, Unfit> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Ok(Value::Bool(true));
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Ok(Value::Bool(false));
        }
        ".nan" | ".NaN" | ".NAN" => return Err(Unfit::NotFinite("NaN")),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Err(Unfit::NotFinite("+Inf")),
        "-.inf" | "-.Inf" | "-.INF" => return Err(Unfit::NotFinite("-Inf")),
        _ => {}
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return Ok(Value::from(text));
    }
    let plain = text.replace('_', "");
    Ok(integer(&plain).or_else(|| float(&plain)).map_or_else(|| Value::from(text), Value::Number))
}

/// Parses an integer: decimal, `0x`, `0o`, `0b`, or octal with a leading zero.
fn integer(plain: &str) -> Option<Number> {
    let (negative, digits) = match plain.strip_prefix(['-', '+']) {
        Some(digits) => (plain.starts_with('-'), digits),
        None => (false, plain),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    // Go accepts no second sign behind the prefix.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative { 0i64.checked_sub_unsigned(magnitude).map(Number::from) } else { Some(Number::from(magnitude)) }
}

/// Parses a decimal number with a point or an exponent. A whole number becomes an integer, as JSON writes it.
fn float(plain: &str) -> Option<Number> {
    if !is_float(plain) {
        return None;
    }
    let value: f64 = plain.parse().ok().filter(|value: &f64| value.is_finite())?;
    const WHOLE_LIMIT: f64 = 1e15;
    if value.fract() == 0.0 && value.abs() < WHOLE_LIMIT {
        #[allow(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
        return Some(Number::from(value as i64));
    }
    Number::from_f64(value)
}

/// Returns whether a text matches `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`.
fn is_float(plain: &str) -> bool {
    let unsigned = plain.strip_prefix(['-', '+']).unwrap_or(plain);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_fits = match mantissa.split_once('.') {
        Some(("", fraction)) => !fraction.is_empty() && digits(fraction),
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    mantissa_fits && exponent.is_none_or(|exponent| !exponent.is_empty() && digits(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn scalars_follow_yaml_1_1() {
        let cases = [
            ("", json!(null)),
            ("~", json!(null)),
            ("Null", json!(null)),
            ("yes", json!(true)),
            ("y", json!(true)),
            ("On", json!(true)),
            ("off", json!(false)),
            ("N", json!(false)),
            ("yEs", json!("yEs")),
            ("12", json!(12)),
            ("+12", json!(12)),
            ("-12", json!(-12)),
            ("1_000", json!(1000)),
            ("0777", json!(511)),
            ("0o17", json!(15)),
            ("0x1F", json!(31)),
            ("-0b11", json!(-3)),
            ("089", json!(89)),
            ("18446744073709551615", json!(18_446_744_073_709_551_615u64)),
            ("1.50", json!(1.5)),
            ("3.0", json!(3)),
            ("1e3", json!(1000)),
            (".5", json!(0.5)),
            ("1.", json!(1)),
            (".", json!(".")),
            ("1:30", json!("1:30")),
            ("2021-03-04", json!("2021-03-04")),
            ("2021-03-04T05:06:07Z", json!("2021-03-04T05:06:07Z")),
            ("1Gi", json!("1Gi")),
            ("-", json!("-")),
            ("1.2.3", json!("1.2.3")),
            ("0x", json!("0x")),
            ("nginx", json!("nginx")),
        ];
        for (text, value) in cases {
            assert_eq!(resolve(text), Ok(value), "{text}");
        }
        assert_eq!(resolve(".nan"), Err(Unfit::NotFinite("NaN")));
    }
}
