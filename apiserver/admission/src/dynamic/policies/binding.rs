//! `Binding`: the writes to which a policy applies, its parameters, and the validation actions.
//!
//! Corresponds to the accessors of k8s.io/apiserver/pkg/admission/plugin/policy/generic.

use super::params::ParamRef;
use crate::dynamic::matching::MatchResources;
use serde_json::Value;

#[derive(Debug)]
pub struct Binding {
    pub name: String,
    pub policy: String,
    pub matching: MatchResources,
    pub param_ref: Option<ParamRef>,
    /// `Deny`, `Warn`, `Audit`; only for validating policies.
    pub actions: Vec<String>,
}

impl Binding {
    pub fn read(binding: &Value) -> Self {
        let spec = &binding["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self {
            name: text(&binding["metadata"]["name"]),
            policy: text(&spec["policyName"]),
            matching: MatchResources::of_policy(&spec["matchResources"]),
            param_ref: ParamRef::read(&spec["paramRef"]),
            actions: spec["validationActions"].as_array().into_iter().flatten().map(text).collect(),
        }
    }
}
