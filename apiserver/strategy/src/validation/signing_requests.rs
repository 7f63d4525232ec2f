//! Validates CertificateSigningRequests: the request, its signer and usages, the decision, and the issued certificate.
//!
//! Corresponds to pkg/apis/certificates/validation.
//!
//! Deviation: Go's parsers word many different errors for a request or a certificate that they cannot read; here there is
//! one error for each. A signature of an unknown kind (RSA keys below 2048 bits, P-521) is not verified.

use crate::write_context::WriteContext;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use field_checks::at::{At, Errors};
use proto::meta::names;
use serde_json::json;
use std::collections::BTreeSet;
use x509_parser::error::X509Error;
use x509_parser::prelude::{FromDer, X509Certificate, X509CertificationRequest};
use x509_parser::public_key::PublicKey;

type Context<'a> = WriteContext<'a>;

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

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const MAX_DOMAIN_BYTES: usize = 253;
/// Length of a domain (253), a slash, a namespace (63), a dot and a name (253).
const MAX_SIGNER_BYTES: usize = 571;
/// Types of conditions whose status must be `True`.
const DECISIONS: &[&str] = &["Approved", "Denied", "Failed"];

pub fn create(_context: &Context<'_>, request: &At<'_>, errors: &mut Errors) {
    check(request, &Tolerated::default(), errors);
}

/// Checks updates of the object itself and of the `approval` subresource.
pub fn update(context: &Context<'_>, request: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    check(request, &Tolerated::of(request, old), errors);
    guard_conditions(request, old, context.subresource == "approval", errors);
    let certificate = request.down("status.certificate");
    if certificate.text() != old.down("status.certificate").text() {
        errors.push(certificate.forbidden("updates may not set certificate content"));
    }
}

pub fn status(_context: &Context<'_>, request: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    check(request, &Tolerated::of(request, old), errors);
    guard_conditions(request, old, false, errors);
    let (certificate, before) = (request.down("status.certificate"), old.down("status.certificate"));
    if certificate.text() != before.text() && !before.is_empty() {
        errors.push(certificate.forbidden("updates may not modify existing certificate content"));
    }
}

/// Invalid values that an update may keep, because the old object has them.
#[derive(Debug, Default)]
struct Tolerated {
    unknown_usages: bool,
    duplicate_usages: bool,
    legacy_signer: bool,
    untyped_conditions: bool,
    duplicate_conditions: bool,
    both_decisions: bool,
    any_certificate: bool,
}

impl Tolerated {
    fn of(request: &At<'_>, old: &At<'_>) -> Self {
        let usages = texts(&old.down("spec.usages"));
        let types: Vec<&str> = conditions(old).map(|condition| condition.field("type").text()).collect();
        let certificate = old.down("status.certificate");
        Self {
            unknown_usages: usages.iter().any(|usage| !USAGES.contains(usage)),
            duplicate_usages: has_duplicates(&usages),
            legacy_signer: old.down("spec.signerName").text() == LEGACY_SIGNER,
            untyped_conditions: types.contains(&""),
            duplicate_conditions: has_duplicates(&types),
            both_decisions: types.contains(&"Approved") && types.contains(&"Denied"),
            any_certificate: request.down("status.certificate").text() == certificate.text()
                || certificate_fault(certificate.text()).is_some(),
        }
    }
}

fn texts<'a>(list: &At<'a>) -> Vec<&'a str> {
    list.items().map(|item| item.text()).collect()
}

fn has_duplicates(texts: &[&str]) -> bool {
    texts.iter().collect::<BTreeSet<_>>().len() < texts.len()
}

fn conditions<'a>(request: &At<'a>) -> impl Iterator<Item = At<'a>> + use<'a> {
    request.down("status.conditions").items()
}

fn check(request: &At<'_>, tolerated: &Tolerated, errors: &mut Errors) {
    let spec = request.field("spec");
    let pem = spec.field("request");
    if let Some(fault) = request_fault(pem.text()) {
        errors.push(pem.invalid_text(fault));
    }
    check_usages(&spec.field("usages"), tolerated, errors);
    let signer = spec.field("signerName");
    if signer.text() == LEGACY_SIGNER && !tolerated.legacy_signer {
        errors.push(signer.invalid("the legacy signerName is not allowed via this API version"));
    } else {
        check_signer_name(&signer, errors);
    }
    let expiry = spec.field("expirationSeconds");
    if expiry.integer().is_some_and(|s| s < 600) {
        errors.push(expiry.invalid("may not specify a duration less than 600 seconds (10 minutes)"));
    }
    check_conditions(request, tolerated, errors);
    let certificate = request.down("status.certificate");
    if let Some(fault) = certificate_fault(certificate.text()).filter(|_| !tolerated.any_certificate) {
        errors.push(certificate.invalid_as(&json!("<certificate data>"), fault));
    }
}

fn check_usages(usages: &At<'_>, tolerated: &Tolerated, errors: &mut Errors) {
    if usages.is_empty() {
        errors.push(usages.required(""));
    }
    for usage in usages.items().filter(|usage| !tolerated.unknown_usages && !USAGES.contains(&usage.text())) {
        errors.push(usage.not_supported(USAGES));
    }
    let mut seen = BTreeSet::new();
    for usage in usages.items().filter(|_| !tolerated.duplicate_usages) {
        if !seen.insert(usage.text()) {
            errors.push(usage.duplicate());
        }
    }
}

/// Returns the error of an invalid request, which is PEM in base64.
fn request_fault(base64: &str) -> Option<&'static str> {
    let blocks = pem_blocks(base64);
    let Some(block) = blocks.first().filter(|block| block.tag() == "CERTIFICATE REQUEST") else {
        return Some("PEM block type must be CERTIFICATE REQUEST");
    };
    let Ok((rest, request)) = X509CertificationRequest::from_der(block.contents()) else {
        return Some("asn1: structure error: not a certificate request");
    };
    if !rest.is_empty() {
        return Some("asn1: syntax error: trailing data");
    }
    match request.verify_signature() {
        Err(X509Error::SignatureVerificationError) => signature_fault(&request),
        _ => None,
    }
}

/// Returns Go's error for a signature that does not match the request's key, by the kind of the key.
fn signature_fault(request: &X509CertificationRequest<'_>) -> Option<&'static str> {
    match request.certification_request_info.subject_pki.parsed() {
        Ok(PublicKey::RSA(key)) if key.key_size() < 2048 => None,
        Ok(PublicKey::RSA(_)) => Some("crypto/rsa: verification error"),
        Ok(PublicKey::EC(_)) => Some("x509: ECDSA verification failure"),
        _ => Some("x509: Ed25519 verification failure"),
    }
}

fn pem_blocks(base64: &str) -> Vec<pem::Pem> {
    pem::parse_many(STANDARD.decode(base64).unwrap_or_default()).unwrap_or_default()
}

/// Returns the error of an invalid certificate chain, which is PEM in base64. No certificate at all is valid.
fn certificate_fault(base64: &str) -> Option<String> {
    if base64.is_empty() {
        return None;
    }
    let blocks = pem_blocks(base64);
    if blocks.is_empty() {
        return Some("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    blocks.iter().find_map(|block| {
        if block.tag() != "CERTIFICATE" {
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found {:?}", block.tag()));
        }
        if block.headers().iter().next().is_some() {
            return Some("no PEM block headers are permitted".to_owned());
        }
        let mut rest = block.contents();
        if rest.is_empty() {
            return Some("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
        while !rest.is_empty() {
            match X509Certificate::from_der(rest) {
                Ok((after, _)) => rest = after,
                Err(_) => return Some("x509: malformed certificate".to_owned()),
            }
        }
        None
    })
}

/// Checks a signer name such as `example.com/signer-name`. Kubernetes checks each label of both parts.
pub fn check_signer_name(at: &At<'_>, errors: &mut Errors) {
    if at.is_empty() {
        errors.push(at.required(""));
        return;
    }
    let parts: Vec<&str> = at.text().split('/').collect();
    let [domain, path] = parts.as_slice() else {
        errors.push(at.invalid("must be a fully qualified domain and path of the form 'example.com/signer-name'"));
        return;
    };
    if domain.len() > MAX_DOMAIN_BYTES {
        errors.push(at.too_long(MAX_DOMAIN_BYTES));
    }
    check_signer_labels(at, domain, names::dns1123_label, errors);
    if !domain.contains('.') {
        errors.push(at.invalid_as(&json!(domain), "should be a domain with at least two segments separated by dots"));
    }
    check_signer_labels(at, path, names::dns1123_subdomain, errors);
    if at.len() > MAX_SIGNER_BYTES {
        errors.push(at.too_long(MAX_SIGNER_BYTES));
    }
}

/// Reports the errors of the first label that is invalid.
fn check_signer_labels(at: &At<'_>, side: &str, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
    let mut labels = side.split('.').map(|label| (label, rule(label)));
    if let Some((label, complaints)) = labels.find(|(_, complaints)| !complaints.is_empty()) {
        let about = |why| at.invalid_as(&json!(side), format!("validating label {label:?}: {why}"));
        errors.extend(complaints.into_iter().map(about));
    }
}

fn check_conditions(request: &At<'_>, tolerated: &Tolerated, errors: &mut Errors) {
    let list = request.down("status.conditions");
    let mut seen = BTreeSet::new();
    for condition in list.items() {
        let (kind, status) = (condition.field("type"), condition.field("status"));
        if kind.is_empty() && !tolerated.untyped_conditions {
            errors.push(kind.required(""));
        }
        let allowed: &[&str] = if DECISIONS.contains(&kind.text()) { &["True"] } else { &["False", "True", "Unknown"] };
        status.check_enum(allowed, errors);
        let other = match kind.text() {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !other.is_empty() && seen.contains(other) && !tolerated.both_decisions {
            let why = "Approved and Denied conditions are mutually exclusive";
            errors.push(list.invalid_as(kind.value, why));
        }
        if !seen.insert(kind.text()) && !tolerated.duplicate_conditions {
            errors.push(At::new(kind.path.clone(), &json!(kind.text())).duplicate());
        }
    }
}

/// Refuses to remove a decision. Only the `approval` subresource may add `Approved` or `Denied`.
fn guard_conditions(request: &At<'_>, old: &At<'_>, may_decide: bool, errors: &mut Errors) {
    let list = request.down("status.conditions");
    let count = |request: &At<'_>, kind: &str| {
        conditions(request).filter(|condition| condition.field("type").text() == kind).count()
    };
    for kind in DECISIONS.iter().filter(|kind| count(request, kind) < count(old, kind)) {
        errors.push(list.forbidden(format!("updates may not remove a condition of type {kind:?}")));
    }
    for kind in ["Approved", "Denied"].iter().filter(|kind| !may_decide && count(request, kind) > count(old, kind)) {
        errors.push(list.forbidden(format!("updates may not add a condition of type {kind:?}")));
    }
}

#[cfg(test)]
mod tests;
