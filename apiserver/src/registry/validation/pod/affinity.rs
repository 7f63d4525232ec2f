//! Where a pod would like to run: affinities and spread.
//!
//! Corresponds to validateAffinity and validateTopologySpreadConstraints.

use crate::registry::validation::at::{At, Errors};
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
        node_selector_term(&term.field("preference"), errors);
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

fn weight(term: &At<'_>, errors: &mut Errors) {
    let weight = term.field("weight");
    if !(1..=100).contains(&weight.integer().unwrap_or(0)) {
        errors.push(weight.invalid("must be in the range 1-100"));
    }
}

pub fn node_selector(selector: &At<'_>, errors: &mut Errors) {
    let terms = selector.field("nodeSelectorTerms");
    if terms.is_empty() {
        errors.push(terms.required("must have at least one node selector term"));
    }
    terms.items().for_each(|term| node_selector_term(&term, errors));
}

fn node_selector_term(term: &At<'_>, errors: &mut Errors) {
    for requirement in term.field("matchExpressions").items() {
        expression(&requirement, errors);
    }
    for requirement in term.field("matchFields").items() {
        field(&requirement, errors);
    }
}

fn expression(requirement: &At<'_>, errors: &mut Errors) {
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
    for value in values.items() {
        value.check(names::label_value, errors);
    }
}

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

fn topology_key(at: &At<'_>, errors: &mut Errors) {
    if at.is_empty() {
        errors.push(at.required("can not be empty"));
    }
    at.check(names::qualified_name, errors);
}

fn pod_term(term: &At<'_>, errors: &mut Errors) {
    selector(&term.field("labelSelector"), errors);
    selector(&term.field("namespaceSelector"), errors);
    for namespace in term.field("namespaces").items() {
        At::new(term.path_of("namespace"), namespace.value).check(names::dns1123_label, errors);
    }
    label_keys(term, errors);
    topology_key(&term.field("topologyKey"), errors);
}

/// Keys whose values are taken from the pod, with or against the rest of the selector.
fn label_keys(term: &At<'_>, errors: &mut Errors) {
    let (with, against) = (term.field("matchLabelKeys"), term.field("mismatchLabelKeys"));
    for keys in [&with, &against] {
        if !keys.is_empty() && !term.field("labelSelector").is_set() {
            errors.push(keys.forbidden("must not be specified when labelSelector is not set"));
        }
        keys.items().for_each(|key| key.check(names::qualified_name, errors));
    }
    for (index, key) in with.items().enumerate() {
        // Kubernetes names the term and the index here, without the field.
        for _ in 0..selections_beside(&term.field("labelSelector"), key.text()) {
            let at = At::new(format!("{}[{index}]", term.path), key.value);
            errors.push(at.invalid("exists in both matchLabelKeys and labelSelector"));
        }
    }
    let against: Vec<&Value> = against.items().map(|key| key.value).collect();
    for key in with.items().filter(|key| against.contains(&key.value)) {
        errors.push(key.invalid("exists in both matchLabelKeys and mismatchLabelKeys"));
    }
}

/// How often a selector speaks of a key that `matchLabelKeys` names, beside the one requirement that this has added.
fn selections_beside(selector: &At<'_>, key: &str) -> usize {
    let labels = usize::from(selector.field("matchLabels").key(key).is_set());
    let requirements: Vec<At<'_>> = selector
        .field("matchExpressions")
        .items()
        .filter(|requirement| requirement.field("key").text() == key)
        .collect();
    let added =
        |requirement: &At<'_>| requirement.field("operator").text() == "In" && requirement.field("values").len() == 1;
    labels + requirements.len() - usize::from(requirements.iter().any(added))
}

pub fn topology_spread(constraints: &At<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for constraint in constraints.items() {
        let skew = constraint.field("maxSkew");
        if skew.integer().unwrap_or(0) <= 0 {
            errors.push(skew.invalid("must be greater than zero"));
        }
        topology_key(&constraint.field("topologyKey"), errors);
        let when = constraint.field("whenUnsatisfiable");
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&when.text()) {
            errors.push(
                At::new(when.path.clone(), &json!(when.text())).not_supported(&["DoNotSchedule", "ScheduleAnyway"]),
            );
        }
        let pair = format!("{{{}, {}}}", constraint.field("topologyKey").text(), when.text());
        if !seen.insert(pair.clone()) {
            let path = constraint.path_of("{topologyKey, whenUnsatisfiable}");
            errors.push(At::new(path, &json!(pair)).duplicate());
        }
        let domains = constraint.field("minDomains");
        domains.check_positive(errors);
        if domains.is_set() && when.text() != "DoNotSchedule" {
            let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}", when.text());
            errors.push(domains.invalid(why));
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            constraint.field(policy).check_optional_enum(&["Honor", "Ignore"], errors);
        }
        let keys = constraint.field("matchLabelKeys");
        if !keys.is_empty() && !constraint.field("labelSelector").is_set() {
            errors.push(keys.forbidden("must not be specified when labelSelector is not set"));
        }
        for key in keys.items() {
            key.check(names::qualified_name, errors);
            if selections_beside(&constraint.field("labelSelector"), key.text()) > 0 {
                errors.push(key.invalid("exists in both matchLabelKeys and labelSelector"));
            }
        }
        selector(&constraint.field("labelSelector"), errors);
    }
}
