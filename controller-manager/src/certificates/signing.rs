//! The signing controller issues certificates for approved requests that meet the rules of their signer.
//!
//! Corresponds to pkg/controller/certificates/signer.

use super::conditions::{self, APPROVED, DENIED, FAILED};
use client::reconcile::Reconciler;
use client::{Action, Client, Event, Lister, Plan, ReconcileError};
use component_base::certificate_request::{CertificateRequest, Signer, SigningError, Validity};
use component_base::rng::Random;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use controller_base::signers::names::SignerName;
use controller_base::signers::options::Signers;
use jiff::{SignedDuration, Timestamp};
use proto::Kind;
use proto::kinds::ByteString;
use proto::kinds::api::certificates::v1::CertificateSigningRequest;
use std::sync::Arc;
use std::time::Duration;

/// Requests that are reconciled concurrently, as in kube-controller-manager.
const WORKERS: usize = 5;
/// A certificate is valid from a little before its issue, because clocks differ.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// If the life is at least this long, it includes the backdated time.
const SHORT: SignedDuration = SignedDuration::from_hours(8);

struct Controller {
    requests: Lister<CertificateSigningRequest>,
    signers: Signers,
    max_life: Duration,
    serials: Random,
}

#[derive(Debug)]
pub struct Observed {
    pub request: Arc<CertificateSigningRequest>,
    pub outcome: Outcome,
}

/// The signer's answer.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// The signer has not answered yet.
    Open,
    /// The certificate (PEM).
    Signed(String),
    /// The reason.
    Refused(String),
}

pub fn start(setup: &Setup<'_>) -> Running {
    let signers = setup.settings.signers.clone();
    if signers.0.is_empty() {
        tracing::warn!("nothing is signed: --cluster-signing-cert-file and --cluster-signing-key-file are not given");
        return Box::pin(async {});
    }
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<CertificateSigningRequest>, queue| {
        if !matches!(event, Event::Deleted(_)) && signer_of(event.object()).is_some() {
            queue.add(event.object().key());
        }
    });
    let controller = Controller {
        requests: setup.lister(),
        signers,
        max_life: setup.settings.signing.cluster_signing_duration,
        serials: setup.env.random("certificate serials"),
    };
    setup.run(queue, WORKERS, controller)
}

/// Returns the signer that is to sign a request. `None` unless the request is approved, and not denied, failed or
/// issued.
pub fn signer_of(request: &CertificateSigningRequest) -> Option<SignerName> {
    let is_due = conditions::has(request, APPROVED)
        && ![DENIED, FAILED].into_iter().any(|type_| conditions::has(request, type_))
        && !conditions::is_issued(request);
    is_due.then(|| SignerName::of(&request.spec.signer_name)).flatten()
}

/// Returns the validity of a certificate: it begins a little before `now`, lasts as long as the request asks and
/// `max_life` allows, and never outlasts the authority.
pub fn validity(requested_s: Option<i32>, max_life: Duration, authority_end: Timestamp, now: Timestamp) -> Validity {
    let max_life = SignedDuration::try_from(max_life).unwrap_or(SignedDuration::MAX);
    let requested = |seconds: i32| SignedDuration::from_secs(seconds.into()).min(max_life);
    let life = requested_s.map_or(max_life, requested);
    let life = if life < SHORT { life } else { life - BACKDATE };
    let end = now.checked_add(life).unwrap_or(authority_end);
    Validity { begin: now - BACKDATE, end: end.min(authority_end) }
}

/// Signs a request, or returns the reason for a refusal.
fn sign(
    request: &CertificateSigningRequest,
    name: SignerName,
    signer: &Signer,
    max_life: Duration,
    serials: &Random,
    now: Timestamp,
) -> Result<Outcome, SigningError> {
    let spec = &request.spec;
    let request = CertificateRequest::from_pem(&spec.request.0)?;
    let usages = spec.usages.as_deref().unwrap_or_default();
    if let Err(reason) = name.check(&request.names, usages) {
        return Ok(Outcome::Refused(reason));
    }
    let mut serial = [0; 16];
    serials.fill(&mut serial);
    let validity = validity(spec.expiration_seconds, max_life, signer.end, now);
    Ok(Outcome::Signed(signer.sign(&request, usages, validity, serial)?))
}

pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let request = &observed.request;
    let changed = match &observed.outcome {
        Outcome::Open => return Plan::default(),
        Outcome::Refused(reason) => conditions::with(request, FAILED, "SignerValidationFailure", reason, now),
        Outcome::Signed(pem) => {
            let mut signed = (**request).clone();
            signed.status.get_or_insert_default().certificate = Some(ByteString(pem.clone().into_bytes()));
            signed
        }
    };
    Plan::of([Action::update_status(&changed)])
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let request = self.requests.by_key(key)?;
        self.signers.0.get(&signer_of(&request)?)?;
        Some(Observed { request, outcome: Outcome::Open })
    }

    /// Signs here and not in `plan`, which is pure: a certificate has a random serial number.
    async fn consult(&self, client: &Client, observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        let signer = signer_of(&observed.request).and_then(|name| Some((name, self.signers.0.get(&name)?)));
        let Some((name, signer)) = signer else { return Ok(None) };
        let now = client.env().wall();
        let outcome = sign(&observed.request, name, signer, self.max_life, &self.serials, now)?;
        Ok(Some(Observed { outcome, ..observed }))
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        plan(observed, now)
    }
}

#[cfg(test)]
pub(super) mod fixture {
    use super::*;
    use controller_base::fixture;
    use proto::kinds::api::certificates::v1::CertificateSigningRequestSpec;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    pub fn request(user: &str, signer: SignerName) -> CertificateSigningRequest {
        of(user, None, signer)
    }

    pub fn node_request(node: &str) -> CertificateSigningRequest {
        of(&format!("system:node:{node}"), Some("system:nodes"), SignerName::ApiServerClientKubelet)
    }

    fn of(common_name: &str, organization: Option<&str>, signer: SignerName) -> CertificateSigningRequest {
        let mut subject = DistinguishedName::new();
        organization.into_iter().for_each(|name| subject.push(DnType::OrganizationName, name));
        subject.push(DnType::CommonName, common_name);
        let mut params = CertificateParams::default();
        params.distinguished_name = subject;
        let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        let spec = CertificateSigningRequestSpec {
            request: ByteString(pem.into_bytes()),
            signer_name: signer.as_str().to_owned(),
            usages: Some(vec!["digital signature".to_owned(), "client auth".to_owned()]),
            ..CertificateSigningRequestSpec::default()
        };
        CertificateSigningRequest { metadata: fixture::meta("csr"), spec, status: None }
    }
}

#[cfg(test)]
mod tests {
    use super::fixture::{node_request, request};
    use super::*;
    use component_base::{pki, tls};
    use component_base_testing::fixtures;
    use controller_base::fixture::at;

    fn approved(request: &CertificateSigningRequest) -> CertificateSigningRequest {
        conditions::with(request, APPROVED, "Test", "", at(0))
    }

    #[test]
    fn approved_open_requests_have_a_signer() {
        let open = request("ada", SignerName::ApiServerClient);
        let due = approved(&open);
        assert_eq!((signer_of(&open), signer_of(&due)), (None, Some(SignerName::ApiServerClient)));
        let denied = conditions::with(&due, DENIED, "Test", "", at(0));
        let failed = conditions::with(&due, FAILED, "Test", "", at(0));
        let mut issued = due.clone();
        issued.status.as_mut().unwrap().certificate = Some(ByteString(b"x".to_vec()));
        let mut foreign = due;
        foreign.spec.signer_name = "example.com/mine".to_owned();
        for request in [denied, failed, issued, foreign] {
            assert_eq!(signer_of(&request), None, "{request:?}");
        }
    }

    #[test]
    fn a_life_is_bounded_by_the_flag_and_by_the_authority() {
        let (now, hour, year) = (at(1_000_000), 3600, 365 * 24 * 3600_i64);
        let far = at(100 * year);
        let end = |requested_s, authority_end| {
            let validity = validity(requested_s, Duration::from_secs(year.unsigned_abs()), authority_end, now);
            assert_eq!(validity.begin, now - BACKDATE);
            validity.end.as_second() - now.as_second()
        };
        assert_eq!(end(None, far), year - 300);
        assert_eq!(end(Some(hour), far), 3600);
        assert_eq!(end(Some(i32::MAX), far), year - 300);
        assert_eq!(end(None, at(1_000_060)), 60);
    }

    #[test]
    fn a_certificate_or_a_reason_is_written() {
        let authority = fixtures::authority_pair();
        let signer = Signer::from_pem(&authority.cert_pem, &authority.key_pem).unwrap();
        let random = Random::from_seed(1, "test");
        let sign = |request: &CertificateSigningRequest, name| {
            sign(request, name, &signer, Duration::from_secs(86_400), &random, at(0)).unwrap()
        };
        let due = approved(&request("ada", SignerName::ApiServerClient));
        let outcome = sign(&due, SignerName::ApiServerClient);
        let Outcome::Signed(pem) = &outcome else { panic!("{outcome:?}") };
        let chain = tls::certificates("client", pem).unwrap();
        assert_eq!(pki::subject(&chain[0]), Some(("ada".to_owned(), Vec::new())));
        let request = Arc::new(due);
        let written = plan(&Observed { request: request.clone(), outcome }, at(0));
        let [Action::UpdateStatus { object, .. }] = written.actions.as_slice() else { panic!("{written}") };
        assert!(object["status"]["certificate"].is_string());

        let node = approved(&node_request("n1"));
        assert!(matches!(sign(&node, SignerName::ApiServerClientKubelet), Outcome::Signed(_)));
        let refused = sign(&request, SignerName::ApiServerClientKubelet);
        assert_eq!(refused, Outcome::Refused("subject organization is not system:nodes".to_owned()));
        let written = plan(&Observed { request, outcome: refused }, at(0)).to_string();
        assert!(written.contains(r#""reason":"SignerValidationFailure""#), "{written}");
    }
}
