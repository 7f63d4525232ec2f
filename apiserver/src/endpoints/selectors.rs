//! Field and label selectors of access reviews: validates them and writes them as query parameters.
//!
//! Corresponds to validateFieldSelectorAttributes in pkg/apis/authorization/validation.

use proto::meta::status::FieldError;
use serde_json::{Value, json};

const OPERATORS: [&str; 4] = ["DoesNotExist", "Exists", "In", "NotIn"];

/// Validates the selectors of `resourceAttributes`.
pub fn check(attributes: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for key in ["fieldSelector", "labelSelector"] {
        let selector = &attributes[key];
        if selector.is_object() {
            check_one(selector, &format!("{field}.{key}"), errors);
        }
    }
}

fn check_one(selector: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let raw = selector["rawSelector"].as_str().unwrap_or_default();
    let requirements = selector["requirements"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !raw.is_empty() && !requirements.is_empty() {
        let why = "may not specified at the same time as requirements";
        errors.push(FieldError::invalid(format!("{field}.rawSelector"), &json!(raw), why));
    }
    if raw.is_empty() && requirements.is_empty() {
        let why = format!("when {field} is specified, requirements or rawSelector is required");
        errors.push(FieldError::required(format!("{field}.requirements"), &why));
    }
    for (index, requirement) in requirements.iter().enumerate() {
        let field = format!("{field}.requirements[{index}]");
        let text = |key: &str| requirement[key].as_str().unwrap_or_default();
        if text("key").is_empty() {
            errors.push(FieldError::required(format!("{field}.key"), "must be specified"));
        }
        let has_values = requirement["values"].as_array().is_some_and(|values| !values.is_empty());
        match text("operator") {
            "In" | "NotIn" if !has_values => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(format!("{field}.values"), why));
            }
            "Exists" | "DoesNotExist" if has_values => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(format!("{field}.values"), why));
            }
            operator if OPERATORS.contains(&operator) => {}
            operator => {
                errors.push(FieldError::not_supported(format!("{field}.operator"), &json!(operator), &OPERATORS));
            }
        }
    }
}

/// Returns a selector in the syntax of `?fieldSelector=`. Requirements that the syntax cannot express are left out, so that
/// the review covers more objects.
pub fn fields(selector: &Value) -> String {
    let escape = |text: &str| text.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
    query_of(selector, |key, operator, values| match (operator, values) {
        ("In", [value]) => Some(format!("{key}={}", escape(value))),
        ("NotIn", [value]) => Some(format!("{key}!={}", escape(value))),
        _ => None,
    })
}

/// Returns a selector in the syntax of `?labelSelector=`.
pub fn labels(selector: &Value) -> String {
    query_of(selector, |key, operator, values| match operator {
        "In" => Some(format!("{key} in ({})", values.join(","))),
        "NotIn" => Some(format!("{key} notin ({})", values.join(","))),
        "Exists" => Some(key.to_owned()),
        "DoesNotExist" => Some(format!("!{key}")),
        _ => None,
    })
}

/// Joins the terms of a selector's requirements, or returns its `rawSelector`.
fn query_of(selector: &Value, term: impl Fn(&str, &str, &[&str]) -> Option<String>) -> String {
    if let Some(raw) = selector["rawSelector"].as_str().filter(|raw| !raw.is_empty()) {
        return raw.to_owned();
    }
    let requirements = selector["requirements"].as_array().into_iter().flatten();
    let terms = requirements.filter_map(|requirement| {
        let text = |key: &str| requirement[key].as_str().unwrap_or_default();
        let values: Vec<&str> =
            requirement["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        term(text("key"), text("operator"), &values)
    });
    terms.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_become_a_query() {
        let requirements = |items: Value| json!({"requirements": items});
        let one =
            |key: &str, operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
        let own = requirements(json!([one("spec.nodeName", "In", json!(["n1"])), one("a", "NotIn", json!(["x,y"]))]));
        assert_eq!(fields(&own), "spec.nodeName=n1,a!=x\\,y");
        let several = requirements(json!([one("a", "In", json!(["x", "y"])), one("b", "DoesNotExist", json!([]))]));
        assert_eq!(fields(&several), "");
        assert_eq!(labels(&several), "a in (x,y),!b");
        assert_eq!(labels(&json!({"rawSelector": "a=b"})), "a=b");
        assert_eq!(fields(&Value::Null), "");
    }

    #[test]
    fn a_selector_is_one_of_two_forms() {
        let check = |selector: Value| {
            let mut errors = Vec::new();
            super::check(&json!({"labelSelector": selector}), "spec.resourceAttributes", &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        let field = "spec.resourceAttributes.labelSelector";
        let well = json!({"key": "a", "operator": "Exists"});
        assert_eq!(check(json!({"requirements": [well]})), "");
        assert_eq!(
            check(json!({})),
            format!(
                "{field}.requirements: Required value: when {field} is specified, requirements or rawSelector is required"
            )
        );
        assert_eq!(
            check(json!({"rawSelector": "a", "requirements": [well]})),
            format!("{field}.rawSelector: Invalid value: \"a\": may not specified at the same time as requirements")
        );
        let bad = json!({"requirements": [{"operator": "In"}, {"key": "a", "operator": "Near"}]});
        let field = format!("{field}.requirements");
        assert_eq!(
            check(bad),
            format!(
                "{field}[0].key: Required value: must be specified; {field}[0].values: Required value: must be specified \
                 when `operator` is 'In' or 'NotIn'; {field}[1].operator: Unsupported value: \"Near\": supported values: \
                 \"DoesNotExist\", \"Exists\", \"In\", \"NotIn\""
            )
        );
    }
}
