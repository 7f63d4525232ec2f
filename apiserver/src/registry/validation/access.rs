//! Roles and bindings, signing requests.
//!
//! Corresponds to pkg/apis/rbac/validation and pkg/apis/certificates/validation.

use super::at::{At, Errors};
use super::selector;
use crate::registry::strategy::WriteContext;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proto::meta::names;
use proto::meta::status::FieldError;
use serde_json::{Value, json};
use std::collections::BTreeSet;

type Context<'a> = WriteContext<'a>;

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

pub fn role(context: &Context<'_>, role: &At<'_>, errors: &mut Errors) {
    let namespaced = context.row.is_namespaced();
    for rule in role.field("rules").items() {
        policy_rule(&rule, namespaced, errors);
    }
    let aggregation = role.field("aggregationRule");
    if !aggregation.is_set() {
        return;
    }
    let selectors = aggregation.field("clusterRoleSelectors");
    if selectors.is_empty() {
        errors.push(selectors.required("at least one clusterRoleSelector required if aggregationRule is non-nil"));
    }
    for one in selectors.items() {
        selector::check(&one, errors);
        if selector::is_unreadable(&one) {
            errors.push(one.invalid_as(&Value::Null, "invalid label selector."));
        }
    }
}

fn policy_rule(rule: &At<'_>, namespaced: bool, errors: &mut Errors) {
    let [verbs, groups, resources, urls] =
        ["verbs", "apiGroups", "resources", "nonResourceURLs"].map(|field| rule.field(field));
    if verbs.is_empty() {
        errors.push(verbs.required("verbs must contain at least one value"));
    }
    if !urls.is_empty() {
        if namespaced {
            errors.push(urls.invalid("namespaced rules cannot apply to non-resource URLs"));
        }
        let names = rule.field("resourceNames");
        if !groups.is_empty() || !resources.is_empty() || !names.is_empty() {
            errors.push(urls.invalid("rules cannot apply to both regular resources and non-resource URLs"));
        }
        return;
    }
    if groups.is_empty() {
        errors.push(groups.required("resource rules must supply at least one api group"));
    }
    if resources.is_empty() {
        errors.push(resources.required("resource rules must supply at least one resource"));
    }
}

pub fn binding(context: &Context<'_>, binding: &At<'_>, errors: &mut Errors) {
    let namespaced = context.row.is_namespaced();
    let role = binding.field("roleRef");
    if role.field("apiGroup").text() != RBAC_GROUP {
        errors.push(unsupported(&role.field("apiGroup"), &[RBAC_GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&role.field("kind").text()) {
        errors.push(unsupported(&role.field("kind"), kinds));
    }
    role.field("name").check_required(names::path_segment, errors);
    binding.field("subjects").items().for_each(|subject| self::subject(&subject, namespaced, errors));
}

/// `not_supported` for a text that may be absent.
fn unsupported(at: &At<'_>, supported: &[&str]) -> FieldError {
    FieldError::not_supported(at.path.clone(), &json!(at.text()), supported)
}

fn subject(subject: &At<'_>, namespaced: bool, errors: &mut Errors) {
    let (kind, name, group) = (subject.field("kind"), subject.field("name"), subject.field("apiGroup"));
    if name.is_empty() {
        errors.push(name.required(""));
    }
    match kind.text() {
        "ServiceAccount" => {
            if !name.is_empty() {
                name.check(names::dns1123_subdomain, errors);
            }
            if !group.is_empty() {
                errors.push(group.not_supported(&[""]));
            }
            if !namespaced && subject.field("namespace").is_empty() {
                errors.push(subject.field("namespace").required(""));
            }
        }
        "User" | "Group" => {
            if group.text() != RBAC_GROUP {
                errors.push(unsupported(&group, &[RBAC_GROUP]));
            }
        }
        _ => errors.push(unsupported(&kind, &["ServiceAccount", "User", "Group"])),
    }
}

pub fn binding_update(_context: &Context<'_>, binding: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    if binding.field("roleRef").value != old.field("roleRef").value {
        let role = binding.field("roleRef");
        let [group, kind, name] = ["apiGroup", "kind", "name"].map(|field| role.field(field).value);
        let shown = format!("{{\"APIGroup\":{group},\"Kind\":{kind},\"Name\":{name}}}");
        errors.push(role.invalid_shown(shown, "cannot change roleRef"));
    }
}

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

pub fn signing_request(_context: &Context<'_>, request: &At<'_>, errors: &mut Errors) {
    let spec = request.field("spec");
    let pem = spec.field("request");
    if !is_certificate_request(pem.text()) {
        errors.push(pem.invalid_text("PEM block type must be CERTIFICATE REQUEST"));
    }
    let usages = spec.field("usages");
    if usages.is_empty() {
        errors.push(usages.required(""));
    }
    let mut seen = BTreeSet::new();
    for usage in usages.items() {
        if !USAGES.contains(&usage.text()) {
            errors.push(usage.not_supported(USAGES));
        }
        if !seen.insert(usage.text()) {
            errors.push(usage.duplicate());
        }
    }
    let signer = spec.field("signerName");
    match signer.text() {
        LEGACY_SIGNER => errors.push(signer.invalid("the legacy signerName is not allowed via this API version")),
        _ => signer_name(&signer, errors),
    }
    let expiry = spec.field("expirationSeconds");
    if expiry.integer().is_some_and(|s| s < 600) {
        errors.push(expiry.invalid("may not specify a duration less than 600 seconds (10 minutes)"));
    }
    conditions(request, errors);
}

fn is_certificate_request(base64: &str) -> bool {
    let Ok(bytes) = STANDARD.decode(base64) else { return false };
    let Some(pem) = x509_parser::pem::Pem::iter_from_buffer(&bytes).next().and_then(Result::ok) else { return false };
    pem.label == "CERTIFICATE REQUEST"
}

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const MAX_DOMAIN_BYTES: usize = 253;

/// `example.com/signer-name`; Kubernetes looks at both sides step by step.
fn signer_name(at: &At<'_>, errors: &mut Errors) {
    if at.is_empty() {
        errors.push(at.required(""));
        return;
    }
    let steps: Vec<&str> = at.text().split('/').collect();
    let [domain, path] = steps.as_slice() else {
        errors.push(at.invalid("must be a fully qualified domain and path of the form 'example.com/signer-name'"));
        return;
    };
    if domain.len() > MAX_DOMAIN_BYTES {
        errors.push(at.too_long(MAX_DOMAIN_BYTES));
    }
    labels_of_signer(at, domain, names::dns1123_label, errors);
    if !domain.contains('.') {
        errors.push(at.invalid_as(&json!(domain), "should be a domain with at least two segments separated by dots"));
    }
    labels_of_signer(at, path, names::dns1123_subdomain, errors);
}

fn labels_of_signer(at: &At<'_>, side: &str, check: fn(&str) -> Vec<String>, errors: &mut Errors) {
    for label in side.split('.') {
        let complaints = check(label).into_iter();
        errors.extend(complaints.map(|why| at.invalid_as(&json!(side), format!("validating label {label:?}: {why}"))));
    }
}

fn conditions(request: &At<'_>, errors: &mut Errors) {
    let list = request.down("status.conditions");
    let mut seen = BTreeSet::new();
    for condition in list.items() {
        let (kind, status) = (condition.field("type"), condition.field("status"));
        if kind.is_empty() {
            errors.push(kind.required(""));
        }
        match (kind.text(), status.text()) {
            (_, "") => errors.push(status.required("")),
            ("Approved" | "Denied" | "Failed", text) if text != "True" => {
                errors.push(status.not_supported(&["True"]));
            }
            (_, "True" | "False" | "Unknown") => {}
            _ => errors.push(status.not_supported(&["True", "False", "Unknown"])),
        }
        if !seen.insert(kind.text()) {
            errors.push(At::new(condition.path.clone(), kind.value).duplicate());
        }
    }
    if seen.contains("Approved") && seen.contains("Denied") {
        errors.push(list.invalid_as(&json!("Denied"), "Approved and Denied conditions are mutually exclusive"));
    }
}

fn has_condition(request: &At<'_>, kind: &str) -> bool {
    request.down("status.conditions").items().any(|condition| condition.field("type").text() == kind)
}

/// Who decided stays on record; nobody but `approval` may decide.
fn guard(request: &At<'_>, old: &At<'_>, may_decide: bool, errors: &mut Errors) {
    let list = request.down("status.conditions");
    for kind in ["Approved", "Denied", "Failed"] {
        let (now, before) = (has_condition(request, kind), has_condition(old, kind));
        if before && !now {
            errors.push(list.forbidden(format!("updates may not remove a condition of type {kind:?}")));
        }
        if now && !before && !may_decide && kind != "Failed" {
            errors.push(list.forbidden(format!("updates may not add a condition of type {kind:?}")));
        }
    }
}

pub fn signing_request_update(context: &Context<'_>, request: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    guard(request, old, context.subresource == "approval", errors);
    if context.subresource == "approval" {
        conditions(request, errors);
    }
}

pub fn signing_request_status(_context: &Context<'_>, request: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    guard(request, old, false, errors);
    conditions(request, errors);
    let certificate = request.down("status.certificate");
    let before = old.down("status.certificate");
    if certificate.value == before.value {
        return;
    }
    let shown = json!("<certificate data>");
    if !before.is_empty() {
        errors.push(certificate.forbidden("updates may not set certificate content twice"));
    }
    let decoded = STANDARD.decode(certificate.text()).unwrap_or_default();
    let blocks: Vec<_> = x509_parser::pem::Pem::iter_from_buffer(&decoded).filter_map(Result::ok).collect();
    if blocks.is_empty() {
        errors.push(certificate.invalid_as(&shown, "must contain at least one CERTIFICATE PEM block"));
    } else if blocks.iter().any(|block| block.label != "CERTIFICATE") {
        errors.push(certificate.invalid_as(&shown, "only CERTIFICATE PEM blocks are allowed"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{create, update};
    use serde_json::json;

    #[test]
    fn a_signer_is_a_domain_and_a_path() {
        let signer = |name: &str| {
            let request = json!({
                "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "Any_Name"},
                "spec": {"request": "eA==", "usages": ["any"], "signerName": name},
            });
            let mut errors = create(request);
            errors.retain(|error| !error.starts_with("spec.request: "));
            errors
        };
        assert_eq!(signer("example.com/a.b"), [""; 0]);
        assert_eq!(
            signer("kubernetes.io/legacy-unknown"),
            [
                "spec.signerName: Invalid value: \"kubernetes.io/legacy-unknown\": the legacy signerName is not allowed via \
                 this API version"
            ]
        );
        assert_eq!(
            signer("short/x"),
            [
                "spec.signerName: Invalid value: \"short\": should be a domain with at least two segments separated by dots"
            ]
        );
        let three = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        assert_eq!(signer("a.b/c/d"), [format!("spec.signerName: Invalid value: \"a.b/c/d\": {three}")]);
        let errors = signer("Ex.com/-");
        assert!(
            errors[0].starts_with("spec.signerName: Invalid value: \"Ex.com\": validating label \"Ex\": a lowercase")
        );
        assert!(errors[1].starts_with("spec.signerName: Invalid value: \"-\": validating label \"-\": a lowercase"));
    }

    #[test]
    fn a_binding_keeps_its_role() {
        let binding = |role: &str| {
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}})
        };
        assert_eq!(
            update(binding("a"), binding("b")),
            [
                "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"b\"}: cannot \
                 change roleRef"
            ]
        );
    }
}
