//! `NodeAffinityArgs`: node affinity that a profile adds to that of its pods.
//!
//! Corresponds to NodeAffinityArgs of k8s.io/kube-scheduler/config/v1, and to the parsing of selectors in
//! k8s.io/component-helpers/scheduling/corev1/nodeaffinity.

use super::Args;
use proto::kinds::api::core::v1::{NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm};
use proto::meta::names;
use proto::meta::status::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::json;

const OPERATORS: &[&str] = &["DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"];
const FIELD_OPERATORS: &[&str] = &["In", "NotIn"];

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeAffinityArgs {
    /// A node must match this affinity and that of the pod.
    pub added_affinity: Option<NodeAffinity>,
}

impl Args for NodeAffinityArgs {
    fn validate(&self, path: &str, errors: &mut Vec<FieldError>) {
        let Some(added) = &self.added_affinity else { return };
        if let Some(required) = &added.required_during_scheduling_ignored_during_execution {
            let path = format!("{path}.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
            for (at, term) in required.node_selector_terms.iter().enumerate() {
                check_term(&format!("{path}[{at}]"), term, errors);
            }
        }
        let preferred = added.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        for (at, weighted) in preferred.enumerate().filter(|(_, weighted)| weighted.weight != 0) {
            let path = format!("{path}.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[{at}]");
            check_term(&path, &weighted.preference, errors);
        }
    }
}

fn check_term(path: &str, term: &NodeSelectorTerm, errors: &mut Vec<FieldError>) {
    for (at, requirement) in term.match_expressions.iter().flatten().enumerate() {
        check_expression(&format!("{path}.matchExpressions[{at}]"), requirement, errors);
    }
    for (at, requirement) in term.match_fields.iter().flatten().enumerate() {
        let (path, operator) = (format!("{path}.matchFields[{at}]"), requirement.operator.as_str());
        let values = requirement.values.as_deref().unwrap_or_default();
        if !FIELD_OPERATORS.contains(&operator) {
            errors.push(FieldError::not_supported(format!("{path}.operator"), &json!(operator), FIELD_OPERATORS));
        } else if values.len() != 1 {
            errors.push(FieldError::invalid(format!("{path}.values"), &json!(values), "must have one element"));
        }
    }
}

fn check_expression(path: &str, requirement: &NodeSelectorRequirement, errors: &mut Vec<FieldError>) {
    let (key, operator) = (json!(requirement.key), requirement.operator.as_str());
    let values = requirement.values.as_deref().unwrap_or_default();
    let complaint = match operator {
        "In" | "NotIn" if values.is_empty() => "for 'in', 'notin' operators, values set can't be empty",
        "Exists" | "DoesNotExist" if !values.is_empty() => "values set must be empty for exists and does not exist",
        "Gt" | "Lt" if values.len() != 1 => "for 'Gt', 'Lt' operators, exactly one value is required",
        _ => "",
    };
    let complaints = names::label_key(&requirement.key).into_iter();
    errors.extend(complaints.map(|why| FieldError::invalid(format!("{path}.key"), &key, why)));
    if !OPERATORS.contains(&operator) {
        errors.push(FieldError::not_supported(format!("{path}.operator"), &json!(operator), OPERATORS));
    } else if !complaint.is_empty() {
        errors.push(FieldError::invalid(format!("{path}.values"), &json!(values), complaint));
    } else if ["Gt", "Lt"].contains(&operator) && values[0].parse::<i64>().is_err() {
        let why = "for 'Gt', 'Lt' operators, the value must be an integer";
        errors.push(FieldError::invalid(format!("{path}.values[0]"), &json!(values[0]), why));
    }
}
