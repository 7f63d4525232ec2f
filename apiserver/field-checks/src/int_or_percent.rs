//! Checks values that are an integer or a percentage (`IntOrString`).
//!
//! Corresponds to ValidatePositiveIntOrPercent and IsNotMoreThan100Percent of pkg/apis/apps/validation.

use super::at::{At, Errors};
use serde_json::Value;

/// Returns the number of a percentage: 25 for `25%`.
fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().unwrap_or(i64::MAX))
}

/// Checks that the value is a percentage or an integer that is not negative.
pub fn check(at: &At<'_>, errors: &mut Errors) {
    match at.value {
        Value::String(text) if percent(text).is_none() => errors.push(at.invalid(
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex \
             used for validation is '[0-9]+%')",
        )),
        Value::Number(_) => at.check_non_negative(errors),
        _ => {}
    }
}

pub fn check_at_most_100_percent(at: &At<'_>, errors: &mut Errors) {
    if at.value.as_str().and_then(percent).is_some_and(|percent| percent > 100) {
        errors.push(at.invalid("must not be greater than 100%"));
    }
}

/// Returns the integer or the number of the percentage, or 0 if the value is neither.
pub fn value(at: &At<'_>) -> i64 {
    match at.value {
        Value::String(text) => percent(text).or_else(|| text.parse().ok()).unwrap_or(0),
        other => other.as_i64().unwrap_or(0),
    }
}
