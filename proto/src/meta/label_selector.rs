//! metav1.LabelSelector: the selector inside objects, and its validation.
//!
//! Corresponds to k8s.io/apimachinery/pkg/apis/meta/v1 (LabelSelectorAsSelector) and its validation package.

use super::names;
use super::selector::{Operator, Requirement, Selector};
use super::status::FieldError;
use crate::kinds::metav1::LabelSelector;
use serde_json::{Value, json};

/// Converts a selector from an object's JSON. An absent one or null selects nothing, an empty one everything.
pub fn from_value(selector: Option<&Value>) -> Result<Selector, String> {
    let typed = match selector {
        None | Some(Value::Null) => None,
        Some(value) => Some(serde_json::from_value::<LabelSelector>(value.clone()).map_err(|e| e.to_string())?),
    };
    from_typed(typed.as_ref())
}

/// Converts a typed selector. `None` selects nothing, an empty one everything.
pub fn from_typed(selector: Option<&LabelSelector>) -> Result<Selector, String> {
    let Some(selector) = selector else { return Ok(Selector::nothing()) };
    let mut requirements = Vec::new();
    for (key, value) in selector.match_labels.iter().flatten() {
        requirements.push(Requirement::new(key, Operator::Equals, [value.clone()].into())?);
    }
    for expression in selector.match_expressions.iter().flatten() {
        let operator = operator_of(&expression.operator)
            .ok_or_else(|| format!("{:?} is not a valid label selector operator", expression.operator))?;
        let values = expression.values.iter().flatten().cloned().collect();
        requirements.push(Requirement::new(&expression.key, operator, values)?);
    }
    Ok(Selector::new(requirements))
}

fn operator_of(name: &str) -> Option<Operator> {
    match name {
        "In" => Some(Operator::In),
        "NotIn" => Some(Operator::NotIn),
        "Exists" => Some(Operator::Exists),
        "DoesNotExist" => Some(Operator::DoesNotExist),
        _ => None,
    }
}

/// Returns all errors of the selector at `field`, worded as Kubernetes words them.
pub fn validate(selector: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(labels) = selector.get("matchLabels").and_then(Value::as_object) {
        let field = format!("{field}.matchLabels");
        for (key, value) in labels {
            invalid_all(&mut errors, &field, key, names::qualified_name(key));
            let value = value.as_str().unwrap_or_default();
            invalid_all(&mut errors, &field, value, names::label_value(value));
        }
    }
    for (i, expression) in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten().enumerate()
    {
        validate_expression(&mut errors, expression, &format!("{field}.matchExpressions[{i}]"));
    }
    errors
}

fn validate_expression(errors: &mut Vec<FieldError>, expression: &Value, field: &str) {
    let text = |key| expression.get(key).and_then(Value::as_str).unwrap_or_default();
    let no_values = Vec::new();
    let values = expression.get("values").and_then(Value::as_array).unwrap_or(&no_values);
    match operator_of(text("operator")) {
        Some(Operator::In | Operator::NotIn) if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(format!("{field}.values"), detail));
        }
        Some(Operator::Exists | Operator::DoesNotExist) if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(format!("{field}.values"), detail));
        }
        Some(_) => {}
        None => errors.push(FieldError::invalid(
            format!("{field}.operator"),
            &json!(text("operator")),
            "not a valid selector operator",
        )),
    }
    invalid_all(errors, &format!("{field}.key"), text("key"), names::qualified_name(text("key")));
    for (i, value) in values.iter().filter_map(Value::as_str).enumerate() {
        invalid_all(errors, &format!("{field}.values[{i}]"), value, names::label_value(value));
    }
}

fn invalid_all(errors: &mut Vec<FieldError>, field: &str, value: &str, complaints: Vec<String>) {
    errors.extend(complaints.into_iter().map(|complaint| FieldError::invalid(field, &json!(value), complaint)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn objects_select_as_their_query_form_does() {
        let cases = [
            (json!({}), Ok("")),
            (json!({"matchLabels":{"b":"1","a":"2"}}), Ok("a=2,b=1")),
            (
                json!({"matchLabels":{"a":"1"},"matchExpressions":[
                    {"key":"t","operator":"In","values":["y","x"]},{"key":"z","operator":"DoesNotExist"}]}),
                Ok("a=1,t in (x,y),!z"),
            ),
            (
                json!({"matchExpressions":[{"key":"t","operator":"Near"}]}),
                Err("\"Near\" is not a valid label selector operator"),
            ),
            (
                json!({"matchExpressions":[{"key":"t","operator":"In"}]}),
                Err("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"),
            ),
        ];
        for (selector, expected) in cases {
            let found = from_value(Some(&selector)).map(|s| s.to_string());
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{selector}");
        }
        assert!(from_value(None).unwrap().is_nothing());
        assert!(from_value(Some(&json!({}))).unwrap().matches(&BTreeMap::new()));
    }

    #[test]
    fn every_error_of_a_selector_is_found() {
        let selector = json!({
            "matchLabels": {"ok": "-"},
            "matchExpressions": [
                {"key": "a", "operator": "In"},
                {"key": "b", "operator": "Exists", "values": ["x"]},
                {"key": "c", "operator": "Odd"},
            ],
        });
        let found: Vec<String> = validate(&selector, "spec.selector").iter().map(ToString::to_string).collect();
        assert!(found[0].starts_with("spec.selector.matchLabels: Invalid value: \"-\": a valid label must be"));
        assert_eq!(
            found[1..],
            [
                "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                "spec.selector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                "spec.selector.matchExpressions[2].operator: Invalid value: \"Odd\": not a valid selector operator",
            ]
        );
    }
}
