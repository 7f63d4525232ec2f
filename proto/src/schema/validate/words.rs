//! Where Kubernetes' own validation says something else than its schema: fields it does not insist on, fields it insists
//! on without saying so in the schema, words it adds, the order in which it lists values.
//!
//! Corresponds to the hand-written parts of pkg/apis/*/validation that are no more than that.

/// What is special about one field of one type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Word {
    /// Checked elsewhere or not at all.
    Unchecked,
    /// Checked elsewhere with all that it contains.
    Elsewhere,
    /// Required, whatever the schema says; the text follows `Required value`.
    Required(&'static str),
    /// The allowed values, in the order of the message.
    Allowed(&'static [&'static str]),
}

use Word::{Allowed, Elsewhere, Required, Unchecked};

const WORDS: &[(&str, &str, Word)] = &[
    ("CSINodeSpec", "drivers", Unchecked),
    ("CertificateSigningRequestSpec", "request", Unchecked),
    ("Container", "image", Required("")),
    ("Container", "terminationMessagePolicy", Allowed(&["File", "FallbackToLogsOnError"])),
    ("CustomResourceDefinitionSpec", "versions", Elsewhere),
    ("DaemonSetSpec", "selector", Unchecked),
    ("DaemonSetUpdateStrategy", "type", Unchecked),
    ("DeploymentStrategy", "type", Unchecked),
    ("Endpoint", "addresses", Required("must contain at least 1 address")),
    ("EndpointSlice", "endpoints", Unchecked),
    ("EphemeralContainer", "image", Required("")),
    ("EphemeralContainer", "terminationMessagePolicy", Allowed(&["File", "FallbackToLogsOnError"])),
    ("ExecAction", "command", Required("")),
    ("IngressClassSpec", "controller", Required("")),
    ("LabelSelectorRequirement", "key", Unchecked),
    ("LabelSelectorRequirement", "operator", Unchecked),
    ("LimitRangeItem", "type", Unchecked),
    ("LimitRangeSpec", "limits", Unchecked),
    ("MutatingWebhook", "admissionReviewVersions", Required("must specify one of v1, v1beta1")),
    ("MutatingWebhook", "sideEffects", Required("must specify one of None, NoneOnDryRun")),
    ("NetworkPolicyPort", "protocol", Allowed(&["TCP", "UDP", "SCTP"])),
    ("NodeSelector", "nodeSelectorTerms", Required("must have at least one node selector term")),
    ("NodeSelectorRequirement", "key", Unchecked),
    ("NodeSelectorRequirement", "operator", Unchecked),
    ("PodAffinityTerm", "topologyKey", Required("can not be empty")),
    ("PodSpec", "restartPolicy", Unchecked),
    ("PolicyRule", "verbs", Required("verbs must contain at least one value")),
    ("PolicyRulesWithSubjects", "subjects", Required("subjects must contain at least one value")),
    ("PriorityLevelConfigurationReference", "name", Required("must reference a priority level")),
    ("RoleRef", "apiGroup", Unchecked),
    ("RoleRef", "kind", Unchecked),
    ("StatefulSetSpec", "podManagementPolicy", Unchecked),
    ("StatefulSetSpec", "serviceName", Unchecked),
    ("StatefulSetUpdateStrategy", "type", Unchecked),
    ("StorageClass", "reclaimPolicy", Allowed(&["Delete", "Retain"])),
    ("Taint", "effect", Unchecked),
    ("Toleration", "operator", Unchecked),
    ("TopologySelectorLabelRequirement", "key", Unchecked),
    (
        "ValidatingAdmissionPolicyBindingSpec",
        "validationActions",
        Required("at least one validation action is required"),
    ),
    ("ValidatingWebhook", "admissionReviewVersions", Required("must specify one of v1, v1beta1")),
    ("ValidatingWebhook", "sideEffects", Required("must specify one of None, NoneOnDryRun")),
];

/// The words about a type's fields, by the last part of its name.
pub fn about(owner: &str) -> &'static [(&'static str, &'static str, Word)] {
    let from = WORDS.partition_point(|(name, ..)| *name < owner);
    let rest = &WORDS[from..];
    &rest[..rest.partition_point(|(name, ..)| *name == owner)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_for_searching() {
        assert!(WORDS.is_sorted_by_key(|(owner, field, _)| (*owner, *field)));
        assert_eq!(about("Taint"), [("Taint", "effect", Unchecked)]);
        assert_eq!(about("Toleration").len(), 1);
        assert_eq!(about("PodStatus"), []);
    }
}
