//! Validates `podFailurePolicy` and `successPolicy` of Jobs, which end a Job before all its pods have finished.
//!
//! Corresponds to validatePodFailurePolicy and validateSuccessPolicy of pkg/apis/batch/validation.

use field_checks::at::{At, Errors};
use proto::meta::names;
use proto::meta::status::FieldError;
use serde_json::json;
use std::collections::BTreeSet;

const FAILURE_ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];
const CONDITION_STATUSES: &[&str] = &["False", "True", "Unknown"];
const MAX_RULES: usize = 20;
const MAX_CONDITIONS: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_INDEXES_BYTES: usize = 64 * 1024;

fn check_count(list: &At<'_>, max: usize, errors: &mut Errors) {
    if list.len() > max {
        errors.push(FieldError::too_many(list.path.clone(), list.len(), max));
    }
}

/// Checks that the text is one of `words`. The error for an absent text lists them, too.
fn check_word(at: &At<'_>, words: &[&str], errors: &mut Errors) {
    if at.is_empty() {
        let listed: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
        errors.push(at.required(&format!("valid values: [{}]", listed.join(" "))));
    } else if !words.contains(&at.text()) {
        errors.push(at.not_supported(words));
    }
}

/// Returns an `Invalid value` error that does not show the value.
pub fn invalid_without_value(at: &At<'_>, detail: &str) -> FieldError {
    FieldError { field: at.path.clone(), reason: "FieldValueInvalid", message: format!("Invalid value: {detail}") }
}

pub fn failure(spec: &At<'_>, errors: &mut Errors) {
    let rules = spec.down("podFailurePolicy.rules");
    check_count(&rules, MAX_RULES, errors);
    for rule in rules.items() {
        let (action, codes, conditions) =
            (rule.field("action"), rule.field("onExitCodes"), rule.field("onPodConditions"));
        if action.text() != "FailIndex" {
            check_word(&action, FAILURE_ACTIONS, errors);
        } else if !spec.field("backoffLimitPerIndex").is_set() {
            errors.push(action.invalid("requires the backoffLimitPerIndex to be set"));
        }
        if codes.is_set() {
            exit_codes(&codes, spec, errors);
        }
        check_count(&conditions, MAX_CONDITIONS, errors);
        for pattern in conditions.items() {
            pattern.field("type").check(names::qualified_name, errors);
            check_word(&pattern.field("status"), CONDITION_STATUSES, errors);
        }
        match (codes.is_set(), !conditions.is_empty()) {
            (true, true) => errors
                .push(invalid_without_value(&rule, "specifying both OnExitCodes and OnPodConditions is not supported")),
            (false, false) => errors
                .push(invalid_without_value(&rule, "specifying one of OnExitCodes and OnPodConditions is required")),
            _ => {}
        }
    }
}

fn exit_codes(codes: &At<'_>, spec: &At<'_>, errors: &mut Errors) {
    let (operator, container) = (codes.field("operator"), codes.field("containerName"));
    check_word(&operator, &["In", "NotIn"], errors);
    let lists = ["template.spec.containers", "template.spec.initContainers"].map(|list| spec.down(list));
    let mut containers = lists.iter().flat_map(At::items);
    if container.is_set() && !containers.any(|one| one.field("name").text() == container.text()) {
        errors.push(container.invalid("must be one of the container or initContainer names in the pod template"));
    }
    let values = codes.field("values");
    if values.is_empty() {
        errors.push(values.invalid_as(&json!([]), "at least one value is required"));
    }
    check_count(&values, MAX_EXIT_CODES, errors);
    let mut seen = BTreeSet::new();
    let numbers: Vec<i64> = values.items().map(|value| value.integer().unwrap_or(0)).collect();
    for (value, number) in values.items().zip(&numbers) {
        if operator.text() == "In" && *number == 0 {
            errors.push(value.invalid("must not be 0 for the In operator"));
        }
        if !seen.insert(*number) {
            errors.push(value.duplicate());
        }
    }
    if !numbers.is_sorted() {
        errors.push(values.invalid("must be ordered"));
    }
}

pub fn success(spec: &At<'_>, errors: &mut Errors) {
    let policy = spec.field("successPolicy");
    if spec.field("completionMode").text() != "Indexed" {
        errors.push(invalid_success_policy(&policy, "requires indexed completion mode"));
        return;
    }
    let (rules, completions) = (policy.field("rules"), spec.field("completions").integer().unwrap_or(0));
    if rules.is_empty() {
        errors.push(rules.required("at least one rules must be specified when the successPolicy is specified"));
    }
    check_count(&rules, MAX_RULES, errors);
    for rule in rules.items() {
        let (count, indexes) = (rule.field("succeededCount"), rule.field("succeededIndexes"));
        if !count.is_set() && !indexes.is_set() {
            errors.push(rule.required("at least one of succeededCount or succeededIndexes must be specified"));
        }
        let mut total = 0;
        if indexes.is_set() {
            if indexes.len() > MAX_INDEXES_BYTES {
                errors.push(indexes.too_long(MAX_INDEXES_BYTES));
            }
            match count_indexes(indexes.text(), completions) {
                Ok(found) => total = found,
                Err(why) => errors.push(indexes.invalid(format!("error parsing succeededIndexes: {why}"))),
            }
        }
        let Some(number) = count.integer() else { continue };
        count.check_non_negative(errors);
        if number > completions {
            let why = format!("must be less than or equal to {completions} (the number of specified completions)");
            errors.push(count.invalid(why));
        }
        if indexes.is_set() && number > total {
            errors.push(count.invalid(format!(
                "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            )));
        }
    }
}

/// Returns an error that shows a success policy as Kubernetes does, under the names of its Go fields.
fn invalid_success_policy(policy: &At<'_>, detail: &str) -> FieldError {
    let rule = |rule: At<'_>| {
        let [indexes, count] = ["succeededIndexes", "succeededCount"].map(|field| rule.field(field).value.clone());
        format!("{{\"SucceededIndexes\":{indexes},\"SucceededCount\":{count}}}")
    };
    let rules = policy.field("rules");
    let listed: Vec<String> = rules.items().map(rule).collect();
    let listed = if rules.is_set() { format!("[{}]", listed.join(",")) } else { json!(null).to_string() };
    invalid_without_value(policy, &format!("{{\"Rules\":{listed}}}: {detail}"))
}

/// Returns the number of indexes in a list such as `0-2,5` (4). They must increase and be less than `completions`.
pub fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let mut total = 0;
    let mut last = None;
    for interval in text.split(',').filter(|_| !text.is_empty()) {
        let limits: Vec<&str> = interval.split('-').collect();
        if limits.len() > 2 {
            return Err(format!(
                "the fragment {interval:?} violates the requirement that an index interval can have at most two parts separated by '-'"
            ));
        }
        let number = |part: &str| {
            let number =
                part.parse::<i64>().map_err(|_| format!("cannot convert string to integer for index: {part:?}"))?;
            if number >= completions {
                return Err(format!("too large index: {part:?}"));
            }
            Ok(number)
        };
        let first = number(limits[0])?;
        let end = limits.get(1).map_or(Ok(first), |part| number(part))?;
        for (previous, current) in [(Some(first).filter(|_| limits.len() > 1), end), (last, first)] {
            if let Some(previous) = previous.filter(|previous| current <= *previous) {
                return Err(format!("non-increasing order, previous: {previous}, current: {current}"));
            }
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}
