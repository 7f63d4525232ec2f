//! Validates PodCertificateRequests: who asks for which certificate, and the key that it is for.
//!
//! Corresponds to ValidatePodCertificateRequestCreate in pkg/apis/certificates/validation.
//!
//! Deviation: a signature of an RSA key or of a key on the curve P-521 is not verified.

mod public_key;
pub mod status;

use super::object_meta::subdomain;
use super::signing_requests::check_signer_name;
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors};
use proto::meta::names;
use public_key::{certificate_request_fault, key_fault};
use serde_json::json;

type Context<'a> = WriteContext<'a>;

const MAX_UID_BYTES: usize = 128;
const MAX_KEY_BYTES: usize = 10 * 1024;
const HOUR_S: i64 = 3600;
/// Longest life of a certificate: 91 days.
const MAX_EXPIRATION_S: i64 = 91 * 24 * HOUR_S;
/// Longest life of a certificate of Kubernetes' own signers.
const MAX_OWN_EXPIRATION_S: i64 = 24 * HOUR_S;
const OWN_SIGNERS: &str = "kubernetes.io/";

pub fn create(_context: &Context<'_>, request: &At<'_>, errors: &mut Errors) {
    let spec = request.field("spec");
    check_signer_name(&spec.field("signerName"), errors);
    check_annotations(&spec.field("unverifiedUserAnnotations"), errors);
    for (name, uid) in [("podName", "podUID"), ("serviceAccountName", "serviceAccountUID"), ("nodeName", "nodeUID")] {
        let (name, uid) = (spec.field(name), spec.field(uid));
        errors.extend(subdomain(name.text(), false).into_iter().map(|fault| name.invalid_text(fault)));
        if uid.is_empty() {
            errors.push(uid.invalid_text("must not be empty"));
        }
        if uid.len() > MAX_UID_BYTES {
            errors.push(uid.too_long(MAX_UID_BYTES));
        }
    }
    if check_expiration(&spec, errors) {
        check_key(&spec, errors);
    }
}

/// Checks that an update changes nothing of the spec.
pub fn update(_context: &Context<'_>, request: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    request.field("spec").check_unchanged(&old.field("spec"), errors);
}

/// Checks that each key has a domain, and that all together are not too long.
fn check_annotations(annotations: &At<'_>, errors: &mut Errors) {
    let mut bytes = 0;
    for (key, value) in annotations.map().into_iter().flatten() {
        let is_prefixed = key.split_once('/').is_some_and(|(domain, name)| !domain.is_empty() && !name.is_empty());
        let faults = match is_prefixed {
            true => names::qualified_name(&key.to_lowercase()),
            false => vec!["must be a domain-prefixed key (such as \"acme.io/foo\")".to_owned()],
        };
        errors.extend(faults.into_iter().map(|fault| annotations.invalid_as(&json!(key), fault)));
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > names::ANNOTATIONS_BYTES {
        errors.push(annotations.too_long(names::ANNOTATIONS_BYTES));
    }
}

/// Returns false if the request has no expiration: Kubernetes then looks no further.
fn check_expiration(spec: &At<'_>, errors: &mut Errors) -> bool {
    let expiration = spec.field("maxExpirationSeconds");
    let Some(seconds) = expiration.integer() else {
        errors.push(expiration.required("must be set"));
        return false;
    };
    let is_own = spec.field("signerName").text().starts_with(OWN_SIGNERS);
    let longest_s = if is_own { MAX_OWN_EXPIRATION_S } else { MAX_EXPIRATION_S };
    if !(HOUR_S..=longest_s).contains(&seconds) {
        errors.push(expiration.invalid(format!("must be in the range [{HOUR_S}, {longest_s}]")));
    }
    true
}

/// Checks the key: in a signed request, or by itself with a signature of the pod's uid.
fn check_key(spec: &At<'_>, errors: &mut Errors) {
    let (stub, key, proof) =
        (spec.field("stubPKCS10Request"), spec.field("pkixPublicKey"), spec.field("proofOfPossession"));
    for field in [&stub, &key, &proof] {
        // Base64 has four bytes for three.
        if field.len() / 4 * 3 > MAX_KEY_BYTES {
            errors.push(field.too_long(MAX_KEY_BYTES));
            return;
        }
    }
    match (stub.is_empty(), key.is_empty(), proof.is_empty()) {
        (false, true, true) => errors.extend(certificate_request_fault(&stub)),
        (true, false, false) => errors.extend(key_fault(&key, &proof, spec.field("podUID").text())),
        _ => {
            errors.push(spec.invalid_omitted(
                "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set",
            ))
        }
    }
}

#[cfg(test)]
mod tests;
