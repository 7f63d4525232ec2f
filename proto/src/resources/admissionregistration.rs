//! admissionregistration.k8s.io: webhooks and expressions that change or refuse what is written.
//!
//! Corresponds to pkg/registry/admissionregistration/rest.

use super::Resource;
use super::row::Group;

const ADMISSION: Group =
    Group { name: "admissionregistration.k8s.io", version: "v1", package: "io.k8s.api.admissionregistration.v1" };

pub(super) fn rows() -> Vec<Resource> {
    let row = |resource, kind| ADMISSION.cluster(resource, kind).category("api-extensions");
    vec![
        row("mutatingadmissionpolicies", "MutatingAdmissionPolicy"),
        row("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"),
        row("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
        row("validatingadmissionpolicies", "ValidatingAdmissionPolicy").status(),
        row("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
        row("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
    ]
}
