//! The rules and selectors by which webhooks and policies select writes.
//!
//! Reading order: [`rule`] matches one rule, [`selectors`] matches labels, [`match_resources`] combines them.
//! Corresponds to k8s.io/apiserver/pkg/admission/plugin/webhook/predicates and plugin/policy/matching.

pub mod rule;
pub mod selectors;
pub mod match_resources;
#[cfg(test)]
mod tests;

pub use match_resources::MatchResources;

use crate::Attributes;

const CONFIGURATION_GROUP: &str = "admissionregistration.k8s.io";
const CONFIGURATIONS: &[&str] = &[
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
];

/// Resources that are answered and not stored. A policy that rejects them would block all authentication and authorization
/// by review, so policies do not see them; webhooks do.
const REVIEWS: &[(&str, &str)] = &[
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// Tells whether policies do not see the write. Corresponds to pkg/kubeapiserver/admission/exclusion.
pub fn is_hidden_from_policies(attributes: &Attributes<'_>) -> bool {
    let served = attributes.served;
    is_exempt(attributes) || REVIEWS.contains(&(served.group.as_ref(), served.resource.as_ref()))
}

/// Tells whether the write is of a webhook or policy configuration. No webhook or policy sees these; otherwise a wrong
/// one could not be removed.
pub fn is_exempt(attributes: &Attributes<'_>) -> bool {
    let served = attributes.served;
    served.group == CONFIGURATION_GROUP && CONFIGURATIONS.contains(&served.resource.as_ref())
}
