//! Validates node affinity, pod affinity and topology spread constraints.
//!
//! Corresponds to validateAffinity and validateTopologySpreadConstraints.

use field_checks::at::{At, Errors};
use proto::meta::{label_selector, names};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub fn validate(affinity: &At<'_>, errors: &mut Errors) {
    let node = affinity.field("nodeAffinity");
    if node.field(REQUIRED).is_set() {
        node_selector(&node.field(REQUIRED), errors);
    }
    for term in node.field(PREFERRED).items() {
        weight(&term, errors);
        node_selector_term(&term.field("preference"), Values::Any, errors);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.field(kind);
        for term in pods.field(REQUIRED).items() {
            pod_term(&term, errors);
        }
        for term in pods.field(PREFERRED).items() {
            weight(&term, errors);
            pod_term(&term.field("podAffinityTerm"), errors);
        }
    }
}

/// Checks the weight of a preferred term.
fn weight(term: &At<'_>, errors: &mut Errors) {
    let weight = term.field("weight");
    if !(1..=100).contains(&weight.integer().unwrap_or(0)) {
        errors.push(weight.invalid("must be in the range 1-100"));
    }
}

/// The values that an expression accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    /// Valid label values only.
    OfLabels,
    /// Any text, as in preferred node affinity.
    Any,
}

pub fn node_selector(selector: &At<'_>, errors: &mut Errors) {
    let terms = selector.field("nodeSelectorTerms");
    if terms.is_empty() {
        errors.push(terms.required("must have at least one node selector term"));
    }
    terms.items().for_each(|term| node_selector_term(&term, Values::OfLabels, errors));
}

fn node_selector_term(term: &At<'_>, values: Values, errors: &mut Errors) {
    for requirement in term.field("matchExpressions").items() {
        expression(&requirement, values, errors);
    }
    for requirement in term.field("matchFields").items() {
        field(&requirement, errors);
    }
}

fn expression(requirement: &At<'_>, accepted: Values, errors: &mut Errors) {
    let (operator, values) = (requirement.field("operator"), requirement.field("values"));
    match operator.text() {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.push(values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            errors.push(values.required("must be specified single value when `operator` is 'Lt' or 'Gt'"));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => errors.push(operator.invalid_text("not a valid selector operator")),
    }
    requirement.field("key").check(names::qualified_name, errors);
    if accepted == Values::OfLabels {
        values.items().for_each(|value| value.check(names::label_value, errors));
    }
}

/// Checks a requirement on a field of nodes, which can only be `metadata.name`.
fn field(requirement: &At<'_>, errors: &mut Errors) {
    let (operator, values) = (requirement.field("operator"), requirement.field("values"));
    match operator.text() {
        "In" | "NotIn" if values.len() != 1 => {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(values.required(why));
        }
        "In" | "NotIn" => {}
        _ => errors.push(operator.invalid_text("not a valid selector operator")),
    }
    if requirement.field("key").text() == "metadata.name" {
        for value in values.items() {
            value.check(names::dns1123_subdomain, errors);
        }
    } else {
        errors.push(requirement.field("key").invalid_text("not a valid field selector key"));
    }
}

fn selector(at: &At<'_>, errors: &mut Errors) {
    if at.is_set() {
        errors.extend(label_selector::validate(at.value, &at.path));
    }
}

/// Checks a term of pod affinity or anti-affinity.
fn pod_term(term: &At<'_>, errors: &mut Errors) {
    selector(&term.field("labelSelector"), errors);
    selector(&term.field("namespaceSelector"), errors);
    for namespace in term.field("namespaces").items() {
        At::new(term.path_of("namespace"), namespace.value).check(names::dns1123_label, errors);
    }
    label_keys(term, errors);
    let key = term.field("topologyKey");
    if key.is_empty() {
        errors.push(key.required("can not be empty"));
    }
    key.check(names::qualified_name, errors);
}

/// Checks `matchLabelKeys` and `mismatchLabelKeys`: keys whose values are taken from the pod and added to the selector.
fn label_keys(term: &At<'_>, errors: &mut Errors) {
    let (match_keys, mismatch_keys) = (term.field("matchLabelKeys"), term.field_if_defined("mismatchLabelKeys"));
    let selector = term.field("labelSelector");
    for keys in [&match_keys, &mismatch_keys].into_iter().filter(|keys| !keys.is_empty()) {
        if selector.is_set() {
            keys.items().for_each(|key| key.check(names::qualified_name, errors));
        } else {
            errors.push(keys.forbidden("must not be specified when labelSelector is not set"));
        }
    }
    // By now the server has added a requirement for each key to the selector. A second one comes from the client.
    let mut selected: BTreeSet<&str> = selector.field("matchLabels").entries().map(|(key, _)| key).collect();
    for requirement in selector.field("matchExpressions").items() {
        let key = requirement.field("key").text();
        let match_key = match_keys.items().enumerate().filter(|(_, match_key)| match_key.text() == key).last();
        if let Some((index, _)) = match_key
            && selected.contains(key)
        {
            // As in Kubernetes, the path has the term and the index, without the field.
            let at = At::new(format!("{}[{index}]", term.path), requirement.field("key").value);
            errors.push(at.invalid("exists in both matchLabelKeys and labelSelector"));
        }
        selected.insert(key);
    }
    let mismatched: Vec<&Value> = mismatch_keys.items().map(|key| key.value).collect();
    for key in match_keys.items().filter(|key| mismatched.contains(&key.value)) {
        errors.push(key.invalid("exists in both matchLabelKeys and mismatchLabelKeys"));
    }
}

fn check_greater_than_zero(at: &At<'_>, errors: &mut Errors) {
    if at.integer().unwrap_or(0) <= 0 {
        errors.push(at.invalid_as(&json!(at.integer().unwrap_or(0)), "must be greater than zero"));
    }
}

pub fn topology_spread(constraints: &At<'_>, errors: &mut Errors) {
    let pair = |constraint: &At<'_>| {
        (constraint.field("topologyKey").text().to_owned(), constraint.field("whenUnsatisfiable").text().to_owned())
    };
    for (index, constraint) in constraints.items().enumerate() {
        check_greater_than_zero(&constraint.field("maxSkew"), errors);
        if constraint.field("topologyKey").is_empty() {
            errors.push(constraint.field("topologyKey").required("can not be empty"));
        }
        let when = constraint.field("whenUnsatisfiable");
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&when.text()) {
            errors.push(
                At::new(when.path.clone(), &json!(when.text())).not_supported(&["DoNotSchedule", "ScheduleAnyway"]),
            );
        }
        let own = pair(&constraint);
        if constraints.items().skip(index + 1).any(|later| pair(&later) == own) {
            let path = constraint.path_of("{topologyKey, whenUnsatisfiable}");
            errors.push(At::new(path, &json!(format!("{{{}, {}}}", own.0, own.1))).duplicate());
        }
        let domains = constraint.field("minDomains");
        if domains.is_set() {
            check_greater_than_zero(&domains, errors);
            if when.text() != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}", when.text());
                errors.push(domains.invalid(why));
            }
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            constraint.field(policy).check_optional_enum(&["Honor", "Ignore"], errors);
        }
        label_keys(&constraint, errors);
        selector(&constraint.field("labelSelector"), errors);
    }
}
