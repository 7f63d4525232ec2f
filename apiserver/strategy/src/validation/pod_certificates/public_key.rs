//! The public key of a PodCertificateRequest, its kind, and the proof that the kubelet has the private one.
//!
//! Corresponds to the checks of keys in ValidatePodCertificateRequestCreate.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use field_checks::at::At;
use proto::meta::status::FieldError;
use serde_json::json;
use x509_parser::asn1_rs::BitString;
use x509_parser::error::X509Error;
use x509_parser::oid_registry::{
    OID_EC_P256, OID_KEY_TYPE_EC_PUBLIC_KEY, OID_NIST_EC_P384, OID_NIST_EC_P521, OID_PKCS1_RSAENCRYPTION,
    OID_SIG_ECDSA_WITH_SHA256, OID_SIG_ED25519, Oid,
};
use x509_parser::prelude::{FromDer, X509CertificationRequest};
use x509_parser::public_key::PublicKey;
use x509_parser::verify::verify_signature;
use x509_parser::x509::{AlgorithmIdentifier, SubjectPublicKeyInfo};

const RSA_BITS: &[usize] = &[3072, 4096];

pub fn decoded(field: &At<'_>) -> Vec<u8> {
    STANDARD.decode(field.text()).unwrap_or_default()
}

/// Returns the error of a request in DER.
pub fn certificate_request_fault(stub: &At<'_>) -> Option<FieldError> {
    let der = decoded(stub);
    let Ok((_, request)) = X509CertificationRequest::from_der(&der) else {
        return Some(stub.invalid("must be a valid PKCS#10 certificate signing request"));
    };
    let key = &request.certification_request_info.subject_pki;
    kind_fault(stub, key).or_else(|| {
        let is_wrong = matches!(request.verify_signature(), Err(X509Error::SignatureVerificationError));
        is_wrong.then(|| stub.invalid_omitted("could not verify the signature of the request"))
    })
}

/// Returns the error of a key by itself, or of its signature of the pod's uid.
pub fn key_fault(key: &At<'_>, proof: &At<'_>, pod_uid: &str) -> Option<FieldError> {
    let der = decoded(key);
    let Ok((_, public)) = SubjectPublicKeyInfo::from_der(&der) else {
        return Some(key.invalid("must be a valid PKIX-serialized public key"));
    };
    kind_fault(key, &public).or_else(|| {
        let algorithm = signature_of(&public)?;
        let signature = decoded(proof);
        let is_wrong = matches!(
            verify_signature(
                &public,
                &AlgorithmIdentifier::new(algorithm, None),
                &BitString::new(0, &signature),
                pod_uid.as_bytes()
            ),
            Err(X509Error::SignatureVerificationError)
        );
        is_wrong.then(|| proof.invalid_omitted("could not verify proof-of-possession signature"))
    })
}

/// Returns the algorithm of signatures of a key; `None` if it is not verified.
fn signature_of(key: &SubjectPublicKeyInfo<'_>) -> Option<Oid<'static>> {
    let algorithm = &key.algorithm.algorithm;
    if *algorithm == OID_SIG_ED25519 {
        Some(OID_SIG_ED25519)
    } else {
        (*algorithm == OID_KEY_TYPE_EC_PUBLIC_KEY).then_some(OID_SIG_ECDSA_WITH_SHA256)
    }
}

/// Returns the error of a key of a kind that is not allowed.
fn kind_fault(field: &At<'_>, key: &SubjectPublicKeyInfo<'_>) -> Option<FieldError> {
    let algorithm = &key.algorithm.algorithm;
    if *algorithm == OID_SIG_ED25519 {
        return None;
    }
    if *algorithm == OID_KEY_TYPE_EC_PUBLIC_KEY {
        let curve = key.algorithm.parameters.as_ref().and_then(|curve| curve.as_oid().ok());
        let is_known = curve.is_some_and(|it| [OID_EC_P256, OID_NIST_EC_P384, OID_NIST_EC_P521].contains(&it));
        return (!is_known).then(|| field.invalid("elliptic public keys must use curve P256 or P384"));
    }
    match key.parsed() {
        Ok(PublicKey::RSA(rsa)) if *algorithm == OID_PKCS1_RSAENCRYPTION => {
            let bits = rsa.key_size();
            let shown = json!(format!("{bits}-bit modulus"));
            let why = "RSA keys must have modulus size 3072 or 4096";
            (!RSA_BITS.contains(&bits)).then(|| field.invalid_as(&shown, why))
        }
        _ => Some(field.invalid("unknown public key type; supported types are Ed25519, ECDSA, and RSA")),
    }
}
