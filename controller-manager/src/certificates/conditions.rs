//! The conditions of a certificate signing request.
//!
//! Corresponds to pkg/controller/certificates/certificate_controller_utils.go.

use controller_base::clock;
use jiff::Timestamp;
use proto::kinds::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestStatus,
};

pub const APPROVED: &str = "Approved";
pub const DENIED: &str = "Denied";
pub const FAILED: &str = "Failed";

pub fn conditions(request: &CertificateSigningRequest) -> &[CertificateSigningRequestCondition] {
    request.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

pub fn has(request: &CertificateSigningRequest, type_: &str) -> bool {
    conditions(request).iter().any(|condition| condition.type_ == type_ && condition.status == "True")
}

pub fn is_issued(request: &CertificateSigningRequest) -> bool {
    certificate(request).is_some()
}

/// Returns the issued certificate (PEM).
pub fn certificate(request: &CertificateSigningRequest) -> Option<&[u8]> {
    let certificate = request.status.as_ref()?.certificate.as_ref()?;
    (!certificate.0.is_empty()).then_some(&certificate.0)
}

/// Returns the request with one more condition.
pub fn with(
    request: &CertificateSigningRequest,
    type_: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> CertificateSigningRequest {
    let mut changed = request.clone();
    let status: &mut CertificateSigningRequestStatus = changed.status.get_or_insert_default();
    status.conditions.get_or_insert_default().push(CertificateSigningRequestCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_update_time: Some(clock::stamp(now)),
        ..CertificateSigningRequestCondition::default()
    });
    changed
}
