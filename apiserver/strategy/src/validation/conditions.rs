//! Validates `status.conditions`: type, status, reason, message and the time of the last transition.
//!
//! Corresponds to ValidateConditions of k8s.io/apimachinery/pkg/apis/meta/v1/validation.

use field_checks::at::{At, Errors};
use proto::meta::names;
use std::collections::BTreeSet;

const MAX_REASON_BYTES: usize = 1024;
const MAX_MESSAGE_BYTES: usize = 32 * 1024;

pub fn check(conditions: &At<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for condition in conditions.items() {
        let kind = condition.field("type");
        if !seen.insert(kind.text()) {
            errors.push(kind.duplicate());
        }
        check_condition(&condition, errors);
    }
}

fn check_condition(condition: &At<'_>, errors: &mut Errors) {
    condition.field("type").check(names::qualified_name, errors);
    check_status(condition, &["False", "True", "Unknown"], errors);
    let generation = condition.field("observedGeneration");
    if generation.integer().is_some_and(|generation| generation < 0) {
        errors.push(generation.invalid("must be greater than or equal to zero"));
    }
    if condition.field("lastTransitionTime").is_empty() {
        errors.push(condition.field("lastTransitionTime").required("must be set"));
    }
    let reason = condition.field("reason");
    if reason.is_empty() {
        errors.push(reason.required("must be set"));
    } else {
        if !is_reason(reason.text()) {
            errors.push(reason.invalid(
                "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric \
                 characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  \
                 or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is \
                 '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')",
            ));
        }
        if reason.len() > MAX_REASON_BYTES {
            errors.push(reason.too_long(MAX_REASON_BYTES));
        }
    }
    if condition.field("message").len() > MAX_MESSAGE_BYTES {
        errors.push(condition.field("message").too_long(MAX_MESSAGE_BYTES));
    }
}

/// Checks that the status of a condition is one of `words`. An absent status is shown as the empty text.
pub fn check_status(condition: &At<'_>, words: &[&str], errors: &mut Errors) {
    let status = condition.field("status");
    if !words.contains(&status.text()) {
        errors.push(At::new(status.path.clone(), &status.text().into()).not_supported(words));
    }
}

fn is_reason(text: &str) -> bool {
    let is_last = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|last| is_last(*last))
        && bytes.iter().all(|b| is_last(*b) || matches!(b, b',' | b':'))
}

#[cfg(test)]
mod tests {
    use crate::testing::{update, update_of};
    use serde_json::{Value, json};

    const TIME: &str = "2026-01-01T00:00:00Z";

    /// Returns the errors of an update that sets these conditions.
    fn errors_of(object: &Value, conditions: Value) -> Vec<String> {
        let mut new = object.clone();
        new["status"]["conditions"] = conditions;
        update_of("status", object.clone(), new)
    }

    #[test]
    fn conditions_are_checked_in_this_order() {
        let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "spec": {"minAvailable": 1, "selector": {}},
            "status": {"currentHealthy": -1, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}});
        let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "spec": {"validations": [{"expression": "true"}]}});
        let good = json!({"type": "A", "status": "True", "reason": "R", "message": "", "lastTransitionTime": TIME});
        let mut again = good.clone();
        again["reason"] = json!("no reason");
        again["observedGeneration"] = json!(-1);
        let odd = json!({"type": "", "status": "Odd", "reason": "", "message": "m".repeat(32 * 1024 + 1),
            "lastTransitionTime": null});
        let conditions = json!([good, again, odd]);
        let reason = "a condition reason must start with alphabetic character, optionally followed by a string of \
                      alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  \
                      or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is \
                      '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
        let at = "status.conditions";
        let expected = [
            format!("{at}[1].type: Duplicate value: \"A\""),
            format!("{at}[1].observedGeneration: Invalid value: -1: must be greater than or equal to zero"),
            format!("{at}[1].reason: Invalid value: \"no reason\": {reason}"),
            format!("{at}[2].type: Invalid value: \"\": name part must be non-empty"),
            format!(
                "{at}[2].type: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and \
                 must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used \
                 for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            ),
            format!("{at}[2].status: Unsupported value: \"Odd\": supported values: \"False\", \"True\", \"Unknown\""),
            format!("{at}[2].lastTransitionTime: Required value: must be set"),
            format!("{at}[2].reason: Required value: must be set"),
            format!("{at}[2].message: Too long: may not be more than 32768 bytes"),
        ];
        assert_eq!(errors_of(&policy, conditions.clone()), expected);
        // The counts of a budget come after its conditions.
        let found = errors_of(&budget, conditions);
        assert_eq!(found[..expected.len()], expected);
        assert_eq!(
            found[expected.len()..],
            ["status.currentHealthy: Invalid value: -1: must be greater than or equal to 0"]
        );
    }

    #[test]
    fn expression_warnings_of_a_policy_have_a_field_and_a_text() {
        let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "spec": {"validations": [{"expression": "true"}]}});
        let mut checked = policy.clone();
        checked["status"] = json!({"typeChecking": {"expressionWarnings": [
            {"fieldRef": "spec.validations[0].expression", "warning": "w"}, {"fieldRef": " ", "warning": ""}]}});
        assert_eq!(
            update_of("status", policy, checked),
            [
                "status.typeChecking.expressionWarnings[1].warning: Required value",
                "status.typeChecking.expressionWarnings[1].fieldRef: Required value",
            ]
        );
    }

    #[test]
    fn conditions_of_an_api_service_have_a_status() {
        let service = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": "v1.a.example"},
            "spec": {"group": "a.example", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}});
        assert_eq!(
            errors_of(
                &service,
                json!([{"type": "Available", "status": "Odd"}, {"type": "Available", "status": "True"}])
            ),
            [
                "status.conditions[0].status: Unsupported value: \"Odd\": supported values: \"True\", \"False\", \"Unknown\""
            ]
        );
        let mut remote = service.clone();
        remote["spec"]["service"] = json!({"name": "s", "namespace": "n", "port": 70000});
        remote["spec"]["insecureSkipTLSVerify"] = json!(true);
        assert_eq!(
            update(service, remote),
            ["spec.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive"]
        );
    }
}
