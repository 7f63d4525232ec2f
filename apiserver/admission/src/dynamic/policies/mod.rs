//! Policies in CEL: ValidatingAdmissionPolicy and MutatingAdmissionPolicy, with their bindings and parameters.
//!
//! `source` knows the policies that are bound, compiled; `binding` chooses writes and parameters, `params` finds those,
//! `view` is the write as one policy sees it. Corresponds to k8s.io/apiserver/pkg/admission/plugin/policy.

pub mod binding;
pub mod mutating;
pub mod params;
pub mod source;
pub mod validating;
pub mod view;

/// What happens to a write of which a policy cannot say anything.
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
