//! Whom a write concerns: the rules and selectors by which webhooks and policies choose.
//!
//! [`rule`] is one rule over one request; [`match_resources`] puts rules and selectors together.
//! Corresponds to k8s.io/apiserver/pkg/admission/plugin/webhook/predicates and plugin/policy/matching.

pub mod match_resources;
pub mod rule;
pub mod selectors;
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

/// Questions that are answered and not stored. A policy that refuses them would keep everybody from asking who somebody is
/// and what he may do; webhooks see them.
const REVIEWS: &[(&str, &str)] = &[
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// What policies do not see. Corresponds to pkg/kubeapiserver/admission/exclusion.
pub fn is_hidden_from_policies(attributes: &Attributes<'_>) -> bool {
    let served = attributes.served;
    is_exempt(attributes) || REVIEWS.contains(&(served.group.as_ref(), served.resource.as_ref()))
}

/// The configurations of webhooks and policies themselves, which none of these sees: else one that is wrong could not be
/// taken away.
pub fn is_exempt(attributes: &Attributes<'_>) -> bool {
    let served = attributes.served;
    served.group == CONFIGURATION_GROUP && CONFIGURATIONS.contains(&served.resource.as_ref())
}
