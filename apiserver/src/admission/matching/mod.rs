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

use super::Attributes;

const CONFIGURATION_GROUP: &str = "admissionregistration.k8s.io";
const CONFIGURATIONS: &[&str] = &[
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
];

/// The configurations of webhooks and policies themselves, which none of these sees: else one that is wrong could not be
/// taken away.
pub fn is_exempt(attributes: &Attributes<'_>) -> bool {
    let served = attributes.served;
    served.group == CONFIGURATION_GROUP && CONFIGURATIONS.contains(&served.resource.as_ref())
}
