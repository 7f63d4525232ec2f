//! Validates the capacities of a device, and their policies for requests of a part.
//!
//! Corresponds to validateRequestPolicy.

use field_checks::at::{At, Errors};
use proto::meta::quantity::Quantity;
use proto::meta::status::FieldError;
use serde_json::json;
use std::collections::BTreeSet;

const MAX_VALUES: usize = 10;

/// Validates one capacity. Only a device that several claims share may have a request policy.
pub fn validate(capacity: &At<'_>, is_shared: bool, errors: &mut Errors) {
    let policy = capacity.field("requestPolicy");
    let total = quantity(&capacity.field("value")).unwrap_or(Quantity::ZERO);
    let (values, range) = (policy.field("validValues"), policy.field("validRange"));
    let default = policy.field("default");
    if !policy.is_set() {
        return;
    }
    if !is_shared {
        errors.push(policy.forbidden("allowMultipleAllocations must be true"));
        return;
    }
    match (!values.is_empty(), range.is_set(), quantity(&default)) {
        (true, true, _) => errors.push(policy.forbidden(
            "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time",
        )),
        (true, false, None) => errors.push(default.required("required when validValues is defined")),
        (true, false, Some(default)) => valid_values(&values, default, total, errors),
        (false, true, None) => errors.push(default.required("required when validRange is defined")),
        (false, true, Some(default)) => valid_range(&range, default, total, errors),
        (false, false, _) => {}
    }
}

fn quantity(at: &At<'_>) -> Option<Quantity> {
    Quantity::try_from(at.value).ok().filter(|_| at.is_set())
}

fn shown(amount: Quantity) -> serde_json::Value {
    json!(amount.to_string())
}

/// Checks that the valid values are sorted and contain the default.
fn valid_values(values: &At<'_>, default: Quantity, total: Quantity, errors: &mut Errors) {
    let amounts: Vec<(At<'_>, Quantity)> = values.items().filter_map(|at| Some((at.clone(), quantity(&at)?))).collect();
    for pair in amounts.windows(2).filter(|pair| pair[0].1 > pair[1].1) {
        errors.push(pair[1].0.invalid_as(&shown(pair[1].1), "values must be sorted in ascending order"));
    }
    let mut has_default = false;
    if amounts.len() > MAX_VALUES {
        errors.push(FieldError::too_many(values.path.clone(), amounts.len(), MAX_VALUES));
    } else {
        for (at, amount) in amounts.iter().filter(|(_, amount)| *amount > total) {
            errors.push(at.invalid_as(&shown(*amount), format!("option is larger than capacity value: {total}")));
        }
        has_default = amounts.iter().any(|(_, amount)| *amount == default);
        let mut seen = BTreeSet::new();
        for (at, amount) in amounts.iter().filter(|(_, amount)| !seen.insert(amount.value())) {
            errors.push(FieldError::duplicate(at.path.clone(), &json!(amount.value().to_string())));
        }
    }
    if !has_default {
        errors.push(values.invalid_as(&shown(default), "default value is not valid according to the requestPolicy"));
    }
}

/// Checks that the default lies in the valid range, and the range in the total.
fn valid_range(range: &At<'_>, default: Quantity, total: Quantity, errors: &mut Errors) {
    let (at_min, at_max, at_step) = (range.field("min"), range.field("max"), range.field("step"));
    let Some(min) = quantity(&at_min) else {
        errors.push(at_min.required("required when validRange is defined"));
        return;
    };
    let mut refuse = |at: &At<'_>, amount: Quantity, is_wrong: bool, why: String| {
        if is_wrong {
            errors.push(at.invalid_as(&shown(amount), why));
        }
    };
    refuse(&at_min, min, min > total, format!("min is larger than capacity value: {total}"));
    refuse(&at_min, default, default < min, format!("default is less than min: {min}"));
    let max = quantity(&at_max);
    if let Some(max) = max {
        refuse(&at_max, min, min > max, format!("min is larger than max: {max}"));
        refuse(&at_max, max, max > total, format!("max is larger than capacity value: {total}"));
        refuse(&at_max, default, default > max, format!("default is more than max: {max}"));
    }
    if let Some(step) = quantity(&at_step) {
        let first_step = min + step;
        refuse(
            &at_step,
            step,
            first_step > total,
            format!("one step {first_step} is larger than capacity value: {total}"),
        );
        for amount in [Some(default), max].into_iter().flatten() {
            let remainder = amount.value().wrapping_sub(min.value()).checked_rem(step.value());
            let why = format!("value is not a multiple of a given step ({step}) from ({min})");
            refuse(&at_step, amount, remainder.is_some_and(|remainder| remainder != 0), why);
        }
    }
}
