//! Certificate signing requests (PKCS #10), and the certificates that an authority issues for them.
//!
//! Subject, names and key are copied from the request unchanged. Corresponds to crypto/x509 of Go and
//! pkg/controller/certificates/authority.

use crate::private_key::{PrivateKey, PrivateKeyError};
use jiff::Timestamp;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData, SigningKey};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateSigningRequestDer};
use std::time::Duration;
use x509_cert::Certificate;
use x509_cert::attr::{Attribute, AttributeTypeAndValue};
use x509_cert::certificate::{TbsCertificate, Version};
use x509_cert::der::asn1::{Any, BitString, GeneralizedTime, OctetString, UtcTime};
use x509_cert::der::flagset::FlagSet;
use x509_cert::der::oid::AssociatedOid;
use x509_cert::der::oid::db::{rfc4519, rfc5280, rfc5912, rfc8410};
use x509_cert::der::pem::LineEnding;
use x509_cert::der::{self, Decode, Encode, EncodePem, Tag, Tagged};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages, SubjectAltName,
    SubjectKeyIdentifier,
};
use x509_cert::ext::{AsExtension, Extension, Extensions};
use x509_cert::name::Name;
use x509_cert::request::{CertReq, ExtensionReq};
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{AlgorithmIdentifierOwned, ObjectIdentifier, SubjectPublicKeyInfoOwned};
use x509_cert::time::{Time, Validity as Lifetime};
use x509_parser::prelude::{FromDer, X509CertificationRequest};

/// Values of `spec.usages` that are key usages.
const KEY_USAGES: &[(&str, KeyUsages)] = &[
    ("signing", KeyUsages::DigitalSignature),
    ("digital signature", KeyUsages::DigitalSignature),
    ("content commitment", KeyUsages::NonRepudiation),
    ("key encipherment", KeyUsages::KeyEncipherment),
    ("data encipherment", KeyUsages::DataEncipherment),
    ("key agreement", KeyUsages::KeyAgreement),
    ("cert sign", KeyUsages::KeyCertSign),
    ("crl sign", KeyUsages::CRLSign),
    ("encipher only", KeyUsages::EncipherOnly),
    ("decipher only", KeyUsages::DecipherOnly),
];

/// Values of `spec.usages` that are extended key usages.
const EXTENDED_KEY_USAGES: &[(&str, ObjectIdentifier)] = &[
    ("any", rfc5280::ANY_EXTENDED_KEY_USAGE),
    ("server auth", rfc5280::ID_KP_SERVER_AUTH),
    ("client auth", rfc5280::ID_KP_CLIENT_AUTH),
    ("code signing", rfc5280::ID_KP_CODE_SIGNING),
    ("email protection", rfc5280::ID_KP_EMAIL_PROTECTION),
    ("s/mime", rfc5280::ID_KP_EMAIL_PROTECTION),
    ("ipsec end system", ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.5")),
    ("ipsec tunnel", ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.6")),
    ("ipsec user", ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.7")),
    ("timestamping", rfc5280::ID_KP_TIME_STAMPING),
    ("ocsp signing", rfc5280::ID_KP_OCSP_SIGNING),
    ("microsoft sgc", ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.10.3.3")),
    ("netscape sgc", ObjectIdentifier::new_unwrap("2.16.840.1.113730.4.1")),
];

#[derive(Debug, thiserror::Error)]
pub enum SigningError {
    #[error("no certificate request: {0}")]
    Request(String),
    #[error("unable to verify certificate request signature: {0}")]
    Signature(String),
    #[error("unrecognized usage values: {0:?}")]
    Usage(String),
    #[error("signing certificate: {0}")]
    Certificate(String),
    #[error("signing key: {0}")]
    Key(#[from] PrivateKeyError),
    #[error("signing key: it is not that of the certificate")]
    OtherKey,
    #[error("certificate: {0}")]
    Encoding(#[from] der::Error),
}

/// The holder that a certificate signing request names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedNames {
    pub common_name: String,
    pub organizations: Vec<String>,
    pub dns_names: Vec<String>,
    pub ip_addresses: usize,
    pub email_addresses: usize,
    pub uris: usize,
}

impl RequestedNames {
    fn add(&mut self, name: &GeneralName) {
        match name {
            GeneralName::DnsName(name) => self.dns_names.push(name.to_string()),
            GeneralName::IpAddress(_) => self.ip_addresses += 1,
            GeneralName::Rfc822Name(_) => self.email_addresses += 1,
            GeneralName::UniformResourceIdentifier(_) => self.uris += 1,
            _ => {}
        }
    }
}

/// Makes a key and a node's request for a client certificate, both PEM.
pub fn node_request(node: &str) -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, format!("system:node:{node}"));
    Ok((key.serialize_pem(), params.serialize_request(&key)?.pem()?))
}

/// A parsed certificate signing request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateRequest {
    pub names: RequestedNames,
    subject: Name,
    public_key: SubjectPublicKeyInfoOwned,
    alternative_names: Option<OctetString>,
    /// The reason why the request's signature is invalid, if it is.
    forged: Option<String>,
}

impl CertificateRequest {
    pub fn from_pem(pem: &[u8]) -> Result<Self, SigningError> {
        let unusable = |error: &dyn std::fmt::Display| SigningError::Request(error.to_string());
        let bytes = CertificateSigningRequestDer::from_pem_slice(pem).map_err(|error| unusable(&error))?;
        let (_, signed) = X509CertificationRequest::from_der(&bytes).map_err(|error| unusable(&error))?;
        let forged = signed.verify_signature().err().map(|error| error.to_string());
        Self::of(CertReq::from_der(&bytes)?, forged).map_err(|error| unusable(&error))
    }

    fn of(request: CertReq, forged: Option<String>) -> der::Result<Self> {
        let mut names = RequestedNames {
            common_name: values(&request.info.subject, rfc4519::CN).pop().unwrap_or_default(),
            organizations: values(&request.info.subject, rfc4519::O),
            ..RequestedNames::default()
        };
        let mut alternative_names = None;
        for extension in extensions(request.info.attributes.iter())? {
            if extension.extn_id == SubjectAltName::OID {
                let found = SubjectAltName::from_der(extension.extn_value.as_bytes())?;
                found.0.iter().for_each(|name| names.add(name));
                alternative_names = Some(extension.extn_value);
            }
        }
        let (subject, public_key) = (request.info.subject, request.info.public_key);
        Ok(Self { names, subject, public_key, alternative_names, forged })
    }
}

/// Returns all values of one attribute of the subject, such as O.
fn values(subject: &Name, kind: ObjectIdentifier) -> Vec<String> {
    let attributes = subject.0.iter().flat_map(|part| part.0.iter()).filter(|attribute| attribute.oid == kind);
    let text = |attribute: &AttributeTypeAndValue| match attribute.value.tag() {
        Tag::Utf8String | Tag::PrintableString => String::from_utf8(attribute.value.value().to_vec()).ok(),
        _ => None,
    };
    attributes.filter_map(text).collect()
}

/// Returns the extensions that a request asks for.
fn extensions<'a>(attributes: impl Iterator<Item = &'a Attribute>) -> der::Result<Extensions> {
    let lists = attributes.filter(|attribute| attribute.oid == ExtensionReq::OID).flat_map(|found| found.values.iter());
    Ok(lists.map(Any::decode_as).collect::<der::Result<Vec<Extensions>>>()?.concat())
}

/// Begin and end of a certificate's validity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub begin: Timestamp,
    pub end: Timestamp,
}

/// A signer: the certificate and key of an authority.
pub struct Signer {
    subject: Name,
    key_identifier: Option<OctetString>,
    key: KeyPair,
    algorithm: AlgorithmIdentifierOwned,
    /// End of the authority's certificate; no certificate that it issues lasts longer.
    pub end: Timestamp,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("end", &self.end).finish_non_exhaustive()
    }
}

impl Signer {
    pub fn from_pem(cert_pem: &str, key_pem: &str) -> Result<Self, SigningError> {
        let unusable = |error: &dyn std::fmt::Display| SigningError::Certificate(error.to_string());
        let bytes = CertificateDer::from_pem_slice(cert_pem.as_bytes()).map_err(|error| unusable(&error))?;
        let certificate = Certificate::from_der(&bytes).map_err(|error| unusable(&error))?.tbs_certificate;
        let key = PrivateKey::from_pem(key_pem)?.key_pair()?;
        if certificate.subject_public_key_info.to_der()? != key.subject_public_key_info() {
            return Err(SigningError::OtherKey);
        }
        let identifier = certificate.get::<SubjectKeyIdentifier>().map_err(|error| unusable(&error))?;
        let end = Timestamp::UNIX_EPOCH.checked_add(certificate.validity.not_after.to_unix_duration());
        Ok(Self {
            key_identifier: identifier.map(|(_, identifier)| identifier.0),
            subject: certificate.subject,
            algorithm: algorithm(&key)?,
            key,
            end: end.map_err(|error| unusable(&error))?,
        })
    }

    /// Issues the requested certificate, PEM.
    pub fn sign(
        &self,
        request: &CertificateRequest,
        usages: &[String],
        validity: Validity,
        serial: [u8; 16],
    ) -> Result<String, SigningError> {
        if let Some(why) = &request.forged {
            return Err(SigningError::Signature(why.clone()));
        }
        let known = |usage: &&String| {
            KEY_USAGES.iter().any(|(word, _)| word == usage)
                || EXTENDED_KEY_USAGES.iter().any(|(word, _)| word == usage)
        };
        if let Some(unknown) = usages.iter().find(|usage| !known(usage)) {
            return Err(SigningError::Usage(unknown.clone()));
        }
        let content = TbsCertificate {
            version: Version::V3,
            serial_number: SerialNumber::new(&serial)?,
            signature: self.algorithm.clone(),
            issuer: self.subject.clone(),
            validity: Lifetime { not_before: time(validity.begin)?, not_after: time(validity.end)? },
            subject: request.subject.clone(),
            subject_public_key_info: request.public_key.clone(),
            issuer_unique_id: None,
            subject_unique_id: None,
            extensions: Some(self.extensions(request, usages)?),
        };
        let signature = self.key.sign(&content.to_der()?).map_err(PrivateKeyError::Unusable)?;
        let certificate = Certificate {
            tbs_certificate: content,
            signature_algorithm: self.algorithm.clone(),
            signature: BitString::from_bytes(&signature)?,
        };
        Ok(certificate.to_pem(LineEnding::LF)?)
    }

    fn extensions(&self, request: &CertificateRequest, usages: &[String]) -> der::Result<Extensions> {
        let subject = &request.subject;
        let mut extensions = Extensions::new();
        let wanted = key_usage(usages);
        if !wanted.0.is_empty() {
            extensions.push(wanted.to_extension(subject, &[])?);
        }
        let wanted = extended_key_usage(usages);
        if !wanted.0.is_empty() {
            // Not critical, as in Kubernetes: a reader that does not know the extension may ignore it.
            extensions.push(Extension { critical: false, ..wanted.to_extension(subject, &[])? });
        }
        extensions.push(BasicConstraints { ca: false, path_len_constraint: None }.to_extension(subject, &[])?);
        if let Some(identifier) = &self.key_identifier {
            let of = AuthorityKeyIdentifier { key_identifier: Some(identifier.clone()), ..Default::default() };
            extensions.push(of.to_extension(subject, &[])?);
        }
        if let Some(names) = request.alternative_names.clone() {
            // Critical if the subject is empty, since then only this extension names the holder.
            let critical = subject.is_empty();
            extensions.push(Extension { extn_id: SubjectAltName::OID, critical, extn_value: names });
        }
        Ok(extensions)
    }
}

fn key_usage(usages: &[String]) -> KeyUsage {
    let wanted = KEY_USAGES.iter().filter(|(word, _)| usages.iter().any(|usage| usage == word));
    KeyUsage(wanted.fold(FlagSet::default(), |all, (_, usage)| all | *usage))
}

fn extended_key_usage(usages: &[String]) -> ExtendedKeyUsage {
    let wanted = EXTENDED_KEY_USAGES.iter().filter(|(word, _)| usages.iter().any(|usage| usage == word));
    let mut wanted: Vec<_> = wanted.map(|(_, oid)| *oid).collect();
    // Two neighbouring values of the table mean the same usage.
    wanted.dedup();
    ExtendedKeyUsage(wanted)
}

/// Encodes a time as RFC 5280 says: UTCTime, or GeneralizedTime if the year needs four digits.
fn time(at: Timestamp) -> der::Result<Time> {
    let since_epoch = Duration::from_secs(u64::try_from(at.as_second()).unwrap_or_default());
    let short = UtcTime::from_unix_duration(since_epoch).map(Time::from);
    short.or_else(|_| GeneralizedTime::from_unix_duration(since_epoch).map(Time::from))
}

/// Returns the signature algorithm of the authority's key.
fn algorithm(key: &KeyPair) -> Result<AlgorithmIdentifierOwned, SigningError> {
    let known = [
        (&rcgen::PKCS_ECDSA_P256_SHA256, rfc5912::ECDSA_WITH_SHA_256, None),
        (&rcgen::PKCS_ECDSA_P384_SHA384, rfc5912::ECDSA_WITH_SHA_384, None),
        (&rcgen::PKCS_ED25519, rfc8410::ID_ED_25519, None),
        (&rcgen::PKCS_RSA_SHA256, rfc5912::SHA_256_WITH_RSA_ENCRYPTION, Some(Any::null())),
    ];
    let found = known.into_iter().find(|(algorithm, ..)| *algorithm == PublicKeyData::algorithm(key));
    let (_, oid, parameters) = found.ok_or(PrivateKeyError::Unusable(rcgen::Error::UnsupportedSignatureAlgorithm))?;
    Ok(AlgorithmIdentifierOwned { oid, parameters })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{EC_KEYS, RSA_KEYS};
    use crate::{pki, tls};
    use pki::Authority;
    use rcgen::{CertificateParams, DistinguishedName, DnType};
    use rustls_pki_types::UnixTime;
    use std::fs;
    use std::time::Duration;
    use x509_parser::prelude::{KeyUsage, X509Certificate};

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    fn request_for(names: &[&str], key: &KeyPair) -> String {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        let mut subject = DistinguishedName::new();
        subject.push(DnType::OrganizationName, "dev");
        subject.push(DnType::CommonName, "ada");
        params.distinguished_name = subject;
        params.serialize_request(key).unwrap().pem().unwrap()
    }

    fn usages(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn authority(folder: &std::path::Path) -> (String, String) {
        Authority::load_or_create(folder, at("2026-03-01T00:00:00Z")).unwrap();
        let read = |name| fs::read_to_string(folder.join(name)).unwrap();
        (read("ca.crt"), read("ca.key"))
    }

    #[test]
    fn what_was_asked_for_is_signed() {
        let folder = tempfile::tempdir().unwrap();
        let (cert, key) = authority(folder.path());
        let signer = Signer::from_pem(&cert, &key).unwrap();
        let own = KeyPair::generate().unwrap();
        let request = CertificateRequest::from_pem(request_for(&["web.example", "10.0.0.7"], &own).as_bytes()).unwrap();
        let names = &request.names;
        assert_eq!((names.common_name.as_str(), names.organizations.as_slice()), ("ada", &["dev".to_owned()][..]));
        assert_eq!((names.dns_names.as_slice(), names.ip_addresses), (&["web.example".to_owned()][..], 1));
        let validity = Validity { begin: at("2026-03-01T00:00:00Z"), end: at("2026-03-02T00:00:00Z") };
        let wanted = usages(&["digital signature", "key encipherment", "client auth"]);
        let pem = signer.sign(&request, &wanted, validity, [0x81; 16]).unwrap();

        let chain = tls::certificates("client", &pem).unwrap();
        let verifier = tls::client_verifier(&cert).unwrap();
        let verify = |time: &str| {
            let since_epoch = Duration::from_secs(at(time).as_second().unsigned_abs());
            verifier.verify_client_cert(&chain[0], &[], UnixTime::since_unix_epoch(since_epoch))
        };
        verify("2026-03-01T12:00:00Z").unwrap();
        verify("2026-03-02T12:00:00Z").unwrap_err();
        assert_eq!(pki::subject(&chain[0]), Some(("ada".to_owned(), vec!["dev".to_owned()])));
        assert!(pki::is_current(&pem, &["web.example".into(), "10.0.0.7".into()], at("2026-01-01T00:00:00Z")).unwrap());
        let (_, certificate) = X509Certificate::from_der(&chain[0]).unwrap();
        assert_eq!(certificate.public_key().raw, own.subject_public_key_info());
        let KeyUsage { flags } = certificate.key_usage().unwrap().unwrap().value;
        assert_eq!(*flags, 0b101);
        let extended = certificate.extended_key_usage().unwrap().unwrap();
        assert!(extended.value.client_auth && !extended.value.server_auth && !extended.critical);
        assert!(!certificate.is_ca());
        assert_eq!(certificate.raw_serial(), [&[0][..], &[0x81; 16]].concat());
    }

    #[test]
    fn several_groups_and_late_years_are_kept() {
        // As `openssl req -subj /O=dev/O=ops/CN=ada` writes it.
        let folder = tempfile::tempdir().unwrap();
        let (cert, key) = authority(folder.path());
        let signer = Signer::from_pem(&cert, &key).unwrap();
        let own = KeyPair::generate().unwrap();
        let mut request = CertificateRequest::from_pem(request_for(&[], &own).as_bytes()).unwrap();
        request.subject = "CN=ada,O=ops,O=dev".parse().unwrap();
        let validity = Validity { begin: at("2026-03-01T00:00:00Z"), end: at("2051-03-01T00:00:00Z") };
        let pem = signer.sign(&request, &usages(&["any"]), validity, [1; 16]).unwrap();
        let chain = tls::certificates("client", &pem).unwrap();
        let groups = vec!["dev".to_owned(), "ops".to_owned()];
        assert_eq!(pki::subject(&chain[0]), Some(("ada".to_owned(), groups)));
        let (_, certificate) = X509Certificate::from_der(&chain[0]).unwrap();
        assert_eq!(certificate.validity().not_after.timestamp(), validity.end.as_second());
    }

    #[test]
    fn the_authority_has_its_key_in_any_form() {
        let own = KeyPair::generate().unwrap();
        let request = CertificateRequest::from_pem(request_for(&[], &own).as_bytes()).unwrap();
        let validity = Validity { begin: at("2026-03-01T00:00:00Z"), end: at("2026-03-02T00:00:00Z") };
        for key in [RSA_KEYS, EC_KEYS].concat() {
            let mut params = CertificateParams::default();
            params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            let cert = params.self_signed(&PrivateKey::from_pem(key).unwrap().key_pair().unwrap()).unwrap().pem();
            let pem = Signer::from_pem(&cert, key)
                .and_then(|signer| signer.sign(&request, &usages(&["client auth"]), validity, [1; 16]));
            let chain = tls::certificates("client", &pem.unwrap()).unwrap();
            let now = Duration::from_secs(at("2026-03-01T12:00:00Z").as_second().unsigned_abs());
            let verifier = tls::client_verifier(&cert).unwrap();
            verifier.verify_client_cert(&chain[0], &[], UnixTime::since_unix_epoch(now)).unwrap();
        }
    }

    #[test]
    fn what_cannot_be_signed_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (cert, key) = authority(folder.path());
        let signer = Signer::from_pem(&cert, &key).unwrap();
        let own = KeyPair::generate().unwrap();
        let mut request = CertificateRequest::from_pem(request_for(&[], &own).as_bytes()).unwrap();
        let validity = Validity { begin: at("2026-03-01T00:00:00Z"), end: signer.end };
        let refused = |request: &CertificateRequest, words: &[&str]| {
            signer.sign(request, &usages(words), validity, [1; 16]).unwrap_err().to_string()
        };
        assert_eq!(refused(&request, &["client auth", "magic"]), r#"unrecognized usage values: "magic""#);
        request.forged = Some("invalid".to_owned());
        assert!(refused(&request, &["client auth"]).starts_with("unable to verify certificate request signature"));
        assert!(CertificateRequest::from_pem(b"none").is_err());
        assert!(matches!(Signer::from_pem(&cert, &own.serialize_pem()), Err(SigningError::OtherKey)));
        assert!(matches!(Signer::from_pem(&cert, "none"), Err(SigningError::Key(_))));
        assert!(matches!(Signer::from_pem("none", &key), Err(SigningError::Certificate(_))));
    }
}
