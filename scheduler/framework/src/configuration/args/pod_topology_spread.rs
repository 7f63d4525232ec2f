//! `PodTopologySpreadArgs`: the constraints of pods that have none of their own.
//!
//! Corresponds to PodTopologySpreadArgs of k8s.io/kube-scheduler/config/v1.

use super::Args;
use proto::kinds::api::core::v1::TopologySpreadConstraint;
use proto::meta::names;
use proto::meta::status::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Spread over nodes and zones, unless the file says otherwise.
pub const SYSTEM: &str = "System";
/// Constraints that the file lists.
pub const LIST: &str = "List";
const ACTIONS: &[&str] = &["DoNotSchedule", "ScheduleAnyway"];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodTopologySpreadArgs {
    pub default_constraints: Vec<TopologySpreadConstraint>,
    pub defaulting_type: String,
}

impl Default for PodTopologySpreadArgs {
    fn default() -> Self {
        Self { default_constraints: Vec::new(), defaulting_type: SYSTEM.to_owned() }
    }
}

impl Args for PodTopologySpreadArgs {
    fn complete(&mut self) {
        if self.defaulting_type.is_empty() {
            SYSTEM.clone_into(&mut self.defaulting_type);
        }
    }

    fn validate(&self, path: &str, errors: &mut Vec<FieldError>) {
        let (type_path, kind) = (format!("{path}.defaultingType"), json!(self.defaulting_type));
        if ![SYSTEM, LIST].contains(&self.defaulting_type.as_str()) {
            errors.push(FieldError::not_supported(type_path, &kind, &[SYSTEM, LIST]));
        } else if self.defaulting_type == SYSTEM && !self.default_constraints.is_empty() {
            errors.push(FieldError::invalid(type_path, &kind, "when .defaultConstraints are not empty"));
        }
        for (at, constraint) in self.default_constraints.iter().enumerate() {
            let path = format!("{path}.defaultConstraints[{at}]");
            check_constraint(&path, constraint, errors);
            let same = |other: &TopologySpreadConstraint| {
                (&other.topology_key, &other.when_unsatisfiable)
                    == (&constraint.topology_key, &constraint.when_unsatisfiable)
            };
            if self.default_constraints[..at].iter().any(same) {
                let twice = format!("{{{}, {}}}", constraint.topology_key, constraint.when_unsatisfiable);
                errors.push(FieldError::duplicate(path, &json!(twice)));
            }
        }
    }
}

fn check_constraint(path: &str, constraint: &TopologySpreadConstraint, errors: &mut Vec<FieldError>) {
    if constraint.max_skew <= 0 {
        let path = format!("{path}.maxSkew");
        errors.push(FieldError::invalid(path, &json!(constraint.max_skew), "not in valid range (0, inf)"));
    }
    let key_path = format!("{path}.topologyKey");
    if constraint.topology_key.is_empty() {
        errors.push(FieldError::required(key_path, "can not be empty"));
    } else {
        let key = json!(constraint.topology_key);
        let complaints = names::label_key(&constraint.topology_key).into_iter();
        errors.extend(complaints.map(|why| FieldError::invalid(&key_path, &key, why)));
    }
    let (action_path, action) = (format!("{path}.whenUnsatisfiable"), constraint.when_unsatisfiable.as_str());
    if action.is_empty() {
        errors.push(FieldError::required(action_path, "can not be empty"));
    } else if !ACTIONS.contains(&action) {
        errors.push(FieldError::not_supported(action_path, &json!(action), ACTIONS));
    }
    if constraint.label_selector.is_some() {
        let why = "constraint must not define a selector, as they deduced for each pod";
        errors.push(FieldError::forbidden(format!("{path}.labelSelector"), why));
    }
}
