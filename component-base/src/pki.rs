//! The cluster's certificate authority, and the certificates and keys that it issues.
//!
//! Corresponds to what kubeadm calls the PKI (cmd/kubeadm/app/phases/certs).

use crate::private_key::{PrivateKey, PrivateKeyError};
use crate::{private_file, tls};
use jiff::{Timestamp, ToSpan, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// Validity of the authority and of its certificates, as in kubeadm.
const AUTHORITY_YEARS: i64 = 10;
const LEAF_YEARS: i64 = 1;
/// A certificate that ends sooner than this is replaced.
const RENEWAL_S: i64 = 30 * 24 * 3600;

#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{}: damaged: {source}", path.display())]
    Damaged { path: PathBuf, source: AuthorityError },
    #[error("damaged: {0}")]
    Certificate(String),
    #[error("certificate for {subject}: {source}")]
    Issue { subject: String, source: AuthorityError },
    #[error("certificate for {subject}: more than one organization")]
    Organizations { subject: String },
}

/// The reason why an authority cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error(transparent)]
    Key(#[from] PrivateKeyError),
    #[error(transparent)]
    Certificate(#[from] rcgen::Error),
}

/// A certificate with its key, both PEM.
#[derive(Clone)]
pub struct CertKey {
    pub cert_pem: String,
    pub key_pem: String,
}

/// The holder that a certificate names.
#[derive(Clone, Debug, Default)]
pub struct Subject<'a> {
    /// CN: the user name of a client, or the host of a server.
    pub common_name: &'a str,
    /// O: the group of a client; at most one.
    pub organizations: &'a [&'a str],
    /// DNS names and IP addresses of a server; empty for a client.
    pub names: &'a [String],
}

/// The cluster's certificate authority.
pub struct Authority {
    pub cert_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// Reads `ca.crt` and `ca.key` from the folder, or creates and writes them.
    pub fn load_or_create(folder: &Path, now: Timestamp) -> Result<Self, PkiError> {
        let (cert, key) = (folder.join("ca.crt"), folder.join("ca.key"));
        if cert.exists() {
            let text =
                |path: &Path| fs::read_to_string(path).map_err(|source| PkiError::Io { path: path.to_owned(), source });
            return Self::from_pem(&text(&cert)?, &text(&key)?)
                .map_err(|source| PkiError::Damaged { path: cert.clone(), source });
        }
        let created = create_authority(now);
        let pair =
            created.map_err(|source| PkiError::Issue { subject: "the authority".into(), source: source.into() })?;
        private_file::create_folder(folder).map_err(|source| PkiError::Io { path: folder.to_owned(), source })?;
        // The certificate comes last: if it exists, the key exists too.
        for (path, text) in [(&key, &pair.key_pem), (&cert, &pair.cert_pem)] {
            private_file::write(path, text.as_bytes()).map_err(|source| PkiError::Io { path: path.clone(), source })?;
        }
        Self::from_pem(&pair.cert_pem, &pair.key_pem).map_err(|source| PkiError::Damaged { path: cert, source })
    }

    pub fn from_pem(cert_pem: &str, key_pem: &str) -> Result<Self, AuthorityError> {
        let key = PrivateKey::from_pem(key_pem)?.key_pair()?;
        Ok(Self { cert_pem: cert_pem.to_owned(), issuer: Issuer::from_ca_cert_pem(cert_pem, key)? })
    }

    /// Issues a certificate for both client and server authentication, with a new key.
    pub fn issue(&self, subject: &Subject<'_>, now: Timestamp) -> Result<CertKey, PkiError> {
        if subject.organizations.len() > 1 {
            // rcgen keeps one value of a kind and drops the others silently.
            return Err(PkiError::Organizations { subject: subject.common_name.to_owned() });
        }
        self.try_issue(subject, now)
            .map_err(|source| PkiError::Issue { subject: subject.common_name.to_owned(), source: source.into() })
    }

    fn try_issue(&self, subject: &Subject<'_>, now: Timestamp) -> Result<CertKey, rcgen::Error> {
        let mut params = params(subject.common_name, subject.organizations, now, LEAF_YEARS);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if !subject.names.is_empty() {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        for name in subject.names {
            params.subject_alt_names.push(match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(name.as_str().try_into()?),
            });
        }
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(CertKey { cert_pem: certificate.pem(), key_pem: key.serialize_pem() })
    }
}

fn create_authority(now: Timestamp) -> Result<CertKey, rcgen::Error> {
    let mut params = params("kubernetes", &[], now, AUTHORITY_YEARS);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok(CertKey { cert_pem: certificate.pem(), key_pem: key.serialize_pem() })
}

fn params(common_name: &str, organizations: &[&str], now: Timestamp, years: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    for organization in organizations {
        name.push(DnType::OrganizationName, *organization);
    }
    name.push(DnType::CommonName, common_name);
    params.distinguished_name = name;
    let today = now.to_zoned(TimeZone::UTC).date();
    // Starts a day early, for clocks that differ a little.
    let begin = today.saturating_sub(1.day());
    let end = today.saturating_add(years.years());
    let day = |date: jiff::civil::Date| {
        date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    params.not_before = day(begin);
    params.not_after = day(end);
    params
}

/// Makes a serving certificate for these names, signed by a new authority whose key is not kept. The authority's
/// certificate follows in the chain, so that a client can be told to trust it.
pub fn self_signed(names: &[String], now: Timestamp) -> Result<CertKey, PkiError> {
    let common_name = format!("{}@{}", names.first().map_or("localhost", String::as_str), now.as_second());
    let failed = |source| PkiError::Issue { subject: common_name.clone(), source };
    let authority = create_authority(now).map_err(|source| failed(source.into()))?;
    let authority = Authority::from_pem(&authority.cert_pem, &authority.key_pem).map_err(failed)?;
    let leaf = authority.issue(&Subject { common_name: &common_name, organizations: &[], names }, now)?;
    Ok(CertKey { cert_pem: leaf.cert_pem + &authority.cert_pem, ..leaf })
}

/// Makes an ES256 key (PKCS#8 PEM) for signing service account tokens.
pub fn signing_key() -> Result<String, PkiError> {
    let unable = |source: rcgen::Error| PkiError::Issue { subject: "service accounts".into(), source: source.into() };
    Ok(KeyPair::generate().map_err(unable)?.serialize_pem())
}

/// Returns true if a certificate (PEM) is valid for another month and for all these names.
pub fn is_current(cert_pem: &str, names: &[String], now: Timestamp) -> Result<bool, PkiError> {
    let chain = tls::certificates("certificate", cert_pem).map_err(|error| PkiError::Certificate(error.to_string()))?;
    let parsed = X509Certificate::from_der(&chain[0]);
    let (_, certificate) = parsed.map_err(|error| PkiError::Certificate(error.to_string()))?;
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let held: Vec<String> =
        alternatives.iter().flat_map(|found| &found.value.general_names).filter_map(text_of).collect();
    let ends_s = certificate.validity().not_after.timestamp();
    Ok(ends_s - now.as_second() > RENEWAL_S && names.iter().all(|name| held.contains(name)))
}

/// Returns the begin and the end of a certificate's (PEM) validity.
pub fn life(cert_pem: &str) -> Result<(Timestamp, Timestamp), PkiError> {
    let chain = tls::certificates("certificate", cert_pem).map_err(|error| PkiError::Certificate(error.to_string()))?;
    let parsed = X509Certificate::from_der(&chain[0]);
    let (_, certificate) = parsed.map_err(|error| PkiError::Certificate(error.to_string()))?;
    let at = |seconds| Timestamp::from_second(seconds).map_err(|error| PkiError::Certificate(error.to_string()));
    let validity = certificate.validity();
    Ok((at(validity.not_before.timestamp())?, at(validity.not_after.timestamp())?))
}

fn text_of(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match <[u8; 4]>::try_from(*bytes) {
            Ok(v4) => Some(IpAddr::from(v4).to_string()),
            Err(_) => <[u8; 16]>::try_from(*bytes).ok().map(|v6| IpAddr::from(v6).to_string()),
        },
        _ => None,
    }
}

/// Returns the common name and organisations of a certificate (DER), which are its user and groups.
pub fn subject(der: &[u8]) -> Option<(String, Vec<String>)> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups = subject.iter_organization().filter_map(|o| o.as_str().ok().map(str::to_owned)).collect();
    Some((name, groups))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls_pki_types::UnixTime;
    use std::time::Duration;

    fn now() -> Timestamp {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn the_authority_is_kept_and_its_clients_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let first = Authority::load_or_create(folder.path(), now()).unwrap();
        let second = Authority::load_or_create(folder.path(), now()).unwrap();
        assert_eq!(first.cert_pem, second.cert_pem);
        let subject = Subject { common_name: "ada", organizations: &["dev"], names: &[] };
        let client = second.issue(&subject, now()).unwrap();
        let chain = tls::certificates("client", &client.cert_pem).unwrap();
        let verifier = tls::client_verifier(&first.cert_pem).unwrap();
        let at = |time: Timestamp| {
            let since_epoch = Duration::from_secs(time.as_second().unsigned_abs());
            verifier.verify_client_cert(&chain[0], &[], UnixTime::since_unix_epoch(since_epoch))
        };
        at(now()).unwrap();
        at("2027-03-02T12:00:00Z".parse().unwrap()).unwrap_err();
    }

    #[test]
    fn a_damaged_authority_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.crt"), "x").unwrap();
        fs::write(folder.path().join("ca.key"), "x").unwrap();
        assert!(matches!(Authority::load_or_create(folder.path(), now()), Err(PkiError::Damaged { .. })));
        assert_eq!(fs::read_to_string(folder.path().join("ca.crt")).unwrap(), "x");
        // Without its key it is not replaced either: everything that it issued would be lost.
        fs::remove_file(folder.path().join("ca.key")).unwrap();
        assert!(matches!(Authority::load_or_create(folder.path(), now()), Err(PkiError::Io { .. })));
        assert!(!folder.path().join("ca.key").exists());
    }

    #[test]
    fn a_certificate_is_current_for_its_names_until_its_last_month() {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::load_or_create(folder.path(), now()).unwrap();
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let subject = Subject { common_name: "server", organizations: &[], names: &names };
        let pem = authority.issue(&subject, now()).unwrap().cert_pem;
        let later = |time: &str| time.parse().unwrap();
        for (names, time, current) in [
            (&names[..], now(), true),
            (&[], now(), true),
            (&["10.0.0.9".to_owned()], now(), false),
            (&names, later("2027-01-15T00:00:00Z"), true),
            (&names, later("2027-02-15T00:00:00Z"), false),
        ] {
            assert_eq!(is_current(&pem, names, time).unwrap(), current, "{names:?} {time}");
        }
        is_current("x", &names, now()).unwrap_err();
    }

    #[test]
    fn a_group_is_never_dropped_in_silence() {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::load_or_create(folder.path(), now()).unwrap();
        let issue = |organizations| authority.issue(&Subject { common_name: "ada", organizations, names: &[] }, now());
        let pair = issue(&["dev"]).unwrap();
        let chain = tls::certificates("client", &pair.cert_pem).unwrap();
        assert_eq!(subject(&chain[0]), Some(("ada".into(), vec!["dev".into()])));
        assert!(matches!(issue(&["dev", "ops"]), Err(PkiError::Organizations { .. })));
    }
}
