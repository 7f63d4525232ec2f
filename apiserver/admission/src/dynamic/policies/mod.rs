//! CEL policies: ValidatingAdmissionPolicy and MutatingAdmissionPolicy, with their bindings and parameters.
//!
//! Reading order: [`source`] compiles policies that have a binding; [`binding`] selects writes and parameters; [`params`]
//! finds the parameters; [`view`] is the write as policies see it; [`validating`] and [`mutating`] are the two plugins.
//! Corresponds to k8s.io/apiserver/pkg/admission/plugin/policy.

pub mod source;
pub mod binding;
pub mod params;
pub mod view;
pub mod validating;
pub mod mutating;

/// `failurePolicy`: whether a write is rejected when the evaluation of a policy fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    Fail,
    Ignore,
}

impl FailurePolicy {
    fn read(spec: &serde_json::Value) -> Self {
        if spec["failurePolicy"] == "Ignore" { Self::Ignore } else { Self::Fail }
    }
}
