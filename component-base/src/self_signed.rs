//! Verifies servers whose certificate is its own authority, such as one that `openssl req -x509` makes.
//!
//! A client that has such a certificate as its authority trusts it as Go's crypto/x509 does, which ends a chain at any certificate
//! that it trusts. WebPKI refuses an authority at the end of a chain.

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::sync::Arc;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::time::ASN1Time;

/// The reason of WebPKI that this verifier does not share. rustls passes it on as an error without a type of its own.
const AUTHORITY_AT_THE_END: &str = "CaUsedAsEndEntity";

/// Asks WebPKI, and accepts one of the trusted certificates itself too, if it is valid, may serve and has the server's name.
#[derive(Debug)]
pub struct AuthorityOrItself {
    pub inner: Arc<WebPkiServerVerifier>,
    pub trusted: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for AuthorityOrItself {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.inner.verify_server_cert(end_entity, intermediates, name, ocsp, now);
        let is_trusted = || self.trusted.iter().any(|trusted| trusted == end_entity);
        match verified {
            Err(Error::InvalidCertificate(CertificateError::Other(why)))
                if why.0.to_string() == AUTHORITY_AT_THE_END && is_trusted() =>
            {
                check(end_entity, now)?;
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Checks what WebPKI would check next: the time, and the purposes that the certificate limits itself to.
fn check(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let bad = |error: CertificateError| Error::InvalidCertificate(error);
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| bad(CertificateError::BadEncoding))?;
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let now = ASN1Time::from_timestamp(seconds).map_err(|_| bad(CertificateError::BadEncoding))?;
    let validity = parsed.validity();
    match (now < validity.not_before, now > validity.not_after) {
        (true, _) => return Err(bad(CertificateError::NotValidYet)),
        (_, true) => return Err(bad(CertificateError::Expired)),
        _ => {}
    }
    let purposes = parsed.extended_key_usage().map_err(|_| bad(CertificateError::BadEncoding))?;
    match purposes.is_none_or(|purposes| purposes.value.server_auth || purposes.value.any) {
        true => Ok(()),
        false => Err(bad(CertificateError::InvalidPurpose)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair};
    use rustls::RootCertStore;
    use rustls::crypto::ring;
    use std::time::Duration;

    fn certificate(name: &str, is_authority: bool, purpose: ExtendedKeyUsagePurpose) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        if is_authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        params.extended_key_usages = vec![purpose];
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn a_trusted_certificate_is_its_own_authority() {
        let [for_servers, for_clients] = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let own = certificate("hook.example", true, for_servers.clone());
        let of_a_client = certificate("hook.example", true, for_clients);
        let mut roots = RootCertStore::empty();
        roots.add(own.clone()).unwrap();
        roots.add(of_a_client.clone()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let verifier = AuthorityOrItself { inner, trusted: vec![own.clone(), of_a_client.clone()] };
        let verify = |certificate: &CertificateDer<'_>, name: &str, year: u64| {
            let name = ServerName::try_from(name.to_owned()).unwrap();
            let now = UnixTime::since_unix_epoch(Duration::from_secs((year - 1970) * 31_557_600));
            verifier.verify_server_cert(certificate, &[], &name, &[], now).map(|_| ())
        };
        assert_eq!(verify(&own, "hook.example", 2026), Ok(()));
        assert!(verify(&own, "other.example", 2026).is_err(), "it is for another name");
        assert!(verify(&own, "hook.example", 2031).is_err(), "it has expired");
        assert!(verify(&of_a_client, "hook.example", 2026).is_err(), "it is for clients");
        for is_authority in [true, false] {
            let other = certificate("hook.example", is_authority, for_servers.clone());
            assert!(verify(&other, "hook.example", 2026).is_err(), "nobody trusts it");
        }
    }
}
