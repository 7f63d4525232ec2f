//! The cleaner deletes requests some time after they were decided, and requests that stay undecided for long.
//!
//! Corresponds to pkg/controller/certificates/cleaner.

use super::conditions::{self, APPROVED, DENIED, FAILED};
use client::reconcile::PeriodicReconciler;
use client::{Lister, Plan};
use component_base::tls;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use controller_base::{actions, clock};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::certificates::v1::CertificateSigningRequest;
use std::sync::Arc;
use std::time::Duration;
use x509_parser::prelude::{FromDer, X509Certificate};

const PERIOD: Duration = Duration::from_secs(3600);
/// How long a decided request is kept.
const DECIDED_S: i64 = 3600;
/// How long an undecided request is kept.
const PENDING_S: i64 = 24 * 3600;

struct Cleaner {
    requests: Lister<CertificateSigningRequest>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    setup.run_periodically("csrcleaner", PERIOD, Cleaner { requests: setup.lister() })
}

/// Returns true if the request is to be deleted.
pub fn is_expired(request: &CertificateSigningRequest, now: Timestamp) -> bool {
    let is_past = |since: Option<Timestamp>, limit_s| since.is_some_and(|since| clock::after(since, limit_s) < now);
    let conditions = conditions::conditions(request);
    let is_issued = conditions::is_issued(request);
    let is_decided = conditions.iter().any(|condition| {
        let counts = match condition.type_.as_str() {
            APPROVED => is_issued,
            DENIED | FAILED => true,
            _ => false,
        };
        counts && is_past(condition.last_update_time.as_ref().map(|time| time.0), DECIDED_S)
    });
    let created = request.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let is_undecided = conditions.is_empty() && is_past(created, PENDING_S);
    is_decided || is_undecided || certificate_end(request).is_some_and(|end| end < now)
}

/// Returns the end of the issued certificate's validity.
fn certificate_end(request: &CertificateSigningRequest) -> Option<Timestamp> {
    let pem = std::str::from_utf8(conditions::certificate(request)?).ok()?;
    let chain = tls::certificates("certificate", pem).ok()?;
    let (_, certificate) = X509Certificate::from_der(&chain[0]).ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

impl PeriodicReconciler for Cleaner {
    type Observed = Vec<Arc<CertificateSigningRequest>>;

    async fn observe(&mut self, _now: Timestamp) -> Self::Observed {
        self.requests.filter("", |_| true)
    }

    fn plan(&mut self, observed: &Self::Observed, now: Timestamp) -> Vec<Plan> {
        let expired = observed.iter().filter(|request| !request.is_deleting() && is_expired(request, now));
        expired.map(|request| Plan::of([actions::delete_exactly(&**request)])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::signing::fixture::request;
    use component_base_testing::fixtures;
    use controller_base::fixture::at;
    use controller_base::signers::names::SignerName;
    use proto::kinds::ByteString;

    #[test]
    fn requests_go_when_their_time_has_passed() {
        let open = request("ada", SignerName::ApiServerClient);
        let with_condition = |type_| conditions::with(&open, type_, "Test", "", at(0));
        let mut issued = with_condition(APPROVED);
        issued.status.as_mut().unwrap().certificate = Some(ByteString(b"PEM".to_vec()));
        let mut expired = open.clone();
        let certificate = Some(ByteString(fixtures::authority_pem().into_bytes()));
        expired.status.get_or_insert_default().certificate = certificate;
        let (hour, day) = (3600, 24 * 3600);
        for (request, stays_until_s) in [
            (&open, Some(day)),
            (&issued, Some(hour)),
            (&with_condition(DENIED), Some(hour)),
            (&with_condition(FAILED), Some(hour)),
            (&with_condition(APPROVED), None),
        ] {
            match stays_until_s {
                Some(limit_s) => {
                    assert!(!is_expired(request, at(limit_s)), "{request:?}");
                    assert!(is_expired(request, at(limit_s + 1)), "{request:?}");
                }
                None => assert!(!is_expired(request, at(100 * day)), "{request:?}"),
            }
        }
        let end = certificate_end(&expired).unwrap();
        assert!(is_expired(&expired, clock::after(end, 1)));
    }
}
