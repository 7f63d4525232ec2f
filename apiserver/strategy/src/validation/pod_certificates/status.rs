//! Validates the status of PodCertificateRequests: one decision that stays, and the certificate that was issued.
//!
//! Corresponds to ValidatePodCertificateRequestStatusUpdate in pkg/apis/certificates/validation.
//!
//! Deviation: mail addresses in a certificate are not checked.

use super::public_key::decoded;
use super::{Context, HOUR_S};
use crate::validation::conditions;
use field_checks::at::{At, Errors};
use jiff::Timestamp;
use proto::meta::status::FieldError;
use serde_json::{Value, json};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate, X509CertificationRequest};
use x509_parser::x509::SubjectPublicKeyInfo;

/// Conditions that end a request. It has at most one of them.
const ENDS: &[&str] = &["Issued", "Denied", "Failed"];
const MAX_CHAIN_BYTES: usize = 100 * 1024;
/// How far the beginning of a certificate may lie from the present.
const MAX_DRIFT_S: i64 = 5 * 60;
/// Shortest time between the refresh and both ends of a certificate.
const REFRESH_MARGIN_S: i64 = 10 * 60;

pub fn update(context: &Context<'_>, request: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let before = errors.len();
    let status = request.field("status");
    check_conditions(&status.field("conditions"), errors);
    if errors.len() > before {
        return;
    }
    let is_changed = status.value != old.field("status").value;
    match (end_of(old), end_of(request)) {
        (Some(_), _) => {
            let why = "immutable after PodCertificateRequest is issued, denied, or failed";
            errors.extend(is_changed.then(|| status.invalid_omitted(why)));
        }
        (None, Some("Issued")) => errors.extend(issue_fault(request, context.now)),
        (None, Some(_)) => {
            let why = "non-condition status fields must be empty when denying or failing the PodCertificateRequest";
            errors.extend(has_others(&status).then(|| status.invalid_omitted(why)));
        }
        (None, None) => {
            let why = "status is immutable unless transitioning to \"Issued\", \"Denied\", or \"Failed\"";
            errors.extend(is_changed.then(|| status.invalid_omitted(why)));
        }
    }
}

fn check_conditions(list: &At<'_>, errors: &mut Errors) {
    for (index, condition) in list.items().enumerate() {
        // Kubernetes has a dot before the index in these paths.
        let shown = |field: &str| condition.field(field).shown_at(format!("{}.[{index}].{field}", list.path));
        let (kind, status) = (shown("type"), shown("status"));
        if !ENDS.contains(&kind.text()) {
            errors.push(kind.not_supported(ENDS));
            continue;
        }
        if index > 0 {
            let why = "There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"";
            errors.push(kind.invalid(why));
        }
        if status.text() != "True" {
            errors.push(status.not_supported(&["True"]));
        }
    }
    conditions::check(list, errors);
}

/// Returns the condition that ends a request.
fn end_of<'a>(request: &At<'a>) -> Option<&'a str> {
    let conditions = request.down("status.conditions").items();
    conditions.map(|condition| condition.field("type").text()).find(|kind| ENDS.contains(kind))
}

/// Returns whether the status has more than conditions.
fn has_others(status: &At<'_>) -> bool {
    ["certificateChain", "notBefore", "beginRefreshAt", "notAfter"].iter().any(|name| status.field(name).is_set())
}

/// Returns the first error of a certificate that is issued.
fn issue_fault(request: &At<'_>, now: Timestamp) -> Option<FieldError> {
    let status = request.field("status");
    let chain = status.field("certificateChain");
    if chain.len() > MAX_CHAIN_BYTES {
        return Some(chain.too_long(MAX_CHAIN_BYTES));
    }
    let blocks = pem::parse_many(chain.text()).unwrap_or_default();
    let Some((first, others)) = blocks.split_first() else {
        return Some(chain.invalid_text("issued certificate chain must contain at least one certificate"));
    };
    if blocks.iter().any(|block| block.tag() != "CERTIFICATE") {
        return Some(chain.invalid("issued certificate chain must consist entirely of CERTIFICATE PEM blocks"));
    }
    let Ok((_, leaf)) = X509Certificate::from_der(first.contents()) else {
        return Some(chain.invalid("leaf certificate does not parse as valid X.509"));
    };
    if others.iter().any(|block| X509Certificate::from_der(block.contents()).is_err()) {
        return Some(chain.invalid("intermediate certificate does not parse as valid X.509"));
    }
    dns_name_fault(&chain, &leaf)
        .or_else(|| {
            let is_for_key = leaf.public_key().raw == requested_key(request).as_slice();
            (!is_for_key).then(|| chain.invalid("leaf certificate was not issued to the requested public key"))
        })
        .or_else(|| time_fault(request, &leaf, now))
}

fn dns_name_fault(chain: &At<'_>, leaf: &X509Certificate<'_>) -> Option<FieldError> {
    let names = leaf.subject_alternative_name().ok().flatten()?;
    names.value.general_names.iter().find_map(|name| {
        let GeneralName::DNSName(name) = name else { return None };
        let why = match *name {
            "" => "leaf certificate should not contain empty DNSName",
            name if name.contains("..") => "leaf certificate's DNSName should not contain '..'",
            name if name.starts_with('.') || name.ends_with('.') => {
                "leaf certificate's DNSName should not start or end with '.'"
            }
            _ => return None,
        };
        Some(chain.invalid_as(&json!(name), why))
    })
}

/// Returns the key that the request is about, in DER; empty if it has none.
fn requested_key(request: &At<'_>) -> Vec<u8> {
    let spec = request.field("spec");
    let stub = decoded(&spec.field("stubPKCS10Request"));
    if let Ok((_, request)) = X509CertificationRequest::from_der(&stub) {
        return request.certification_request_info.subject_pki.raw.to_vec();
    }
    let key = decoded(&spec.field("pkixPublicKey"));
    SubjectPublicKeyInfo::from_der(&key).map(|(_, key)| key.raw.to_vec()).unwrap_or_default()
}

fn time_fault(request: &At<'_>, leaf: &X509Certificate<'_>, now: Timestamp) -> Option<FieldError> {
    let (spec, status) = (request.field("spec"), request.field("status"));
    let consistent = "must be present and consistent with the issued certificate";
    let within = "must be present and in the range [notbefore+10min, notafter-10min]";
    let seconds = |name: &str, why: &str| {
        let field = status.field(name);
        let time: Option<Timestamp> = field.text().parse().ok();
        time.map(|time| (time.as_second(), field.clone())).ok_or_else(|| field.required(why))
    };
    let times = (seconds("notBefore", consistent), seconds("notAfter", consistent), seconds("beginRefreshAt", within));
    let ((begin_s, begin), (end_s, end), (refresh_s, refresh)) = match times {
        (Ok(begin), Ok(end), Ok(refresh)) => (begin, end, refresh),
        (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => return Some(error),
    };
    let validity = leaf.validity();
    let life_s = end_s - begin_s;
    let longest_s = spec.field("maxExpirationSeconds").integer().unwrap_or_default();
    let life: Value = json!(format!("{life_s}s"));
    let chain = status.field("certificateChain");
    if begin_s != validity.not_before.timestamp() {
        Some(begin.invalid("must be set to the NotBefore time encoded in the leaf certificate"))
    } else if (begin_s - now.as_second()).abs() > MAX_DRIFT_S {
        Some(begin.invalid("must be set to within 5 minutes of kube-apiserver's current time"))
    } else if end_s != validity.not_after.timestamp() {
        Some(end.invalid("must be set to the NotAfter time encoded in the leaf certificate"))
    } else if life_s < HOUR_S {
        Some(chain.invalid_as(&life, "leaf certificate lifetime must be >= 1 hour"))
    } else if life_s > longest_s {
        let why = format!("leaf certificate lifetime must be <= spec.maxExpirationSeconds ({longest_s})");
        Some(chain.invalid_as(&life, why))
    } else if refresh_s < begin_s + REFRESH_MARGIN_S {
        Some(refresh.invalid("must be at least 10 minutes after status.notBefore"))
    } else if refresh_s > end_s - REFRESH_MARGIN_S {
        Some(refresh.invalid("must be at least 10 minutes before status.notAfter"))
    } else {
        None
    }
}
