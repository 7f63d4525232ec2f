//! A request for a certificate (PKCS #10), and the certificate that an authority makes of it.
//!
//! Subject, names and key go over byte by byte: what the requester wrote is what the certificate says. Corresponds to
//! crypto/x509 of Go and pkg/controller/certificates/authority.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rcgen::{KeyPair, PublicKeyData, SigningKey};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateSigningRequestDer};
use x509_parser::prelude::{
    FromDer, GeneralName, ParsedCriAttribute, ParsedExtension, X509Certificate, X509CertificationRequest,
};
use yasna::models::ObjectIdentifier;
use yasna::{DERWriter, Tag, construct_der};

const KEY_USAGE: &[u64] = &[2, 5, 29, 15];
const SUBJECT_ALTERNATIVE_NAME: &[u64] = &[2, 5, 29, 17];
const BASIC_CONSTRAINTS: &[u64] = &[2, 5, 29, 19];
const AUTHORITY_KEY_IDENTIFIER: &[u64] = &[2, 5, 29, 35];
const EXTENDED_KEY_USAGE: &[u64] = &[2, 5, 29, 37];
/// From this year on a certificate's time is written in another form.
const YEAR_OF_FOUR_DIGITS: i16 = 2050;
/// Of a line of PEM.
const PEM_COLUMNS: usize = 64;

/// Words of `spec.usages`, and the bit of the key usage that each stands for.
const KEY_USAGES: &[(&str, u8)] = &[
    ("signing", 0),
    ("digital signature", 0),
    ("content commitment", 1),
    ("key encipherment", 2),
    ("data encipherment", 3),
    ("key agreement", 4),
    ("cert sign", 5),
    ("crl sign", 6),
    ("encipher only", 7),
    ("decipher only", 8),
];

/// Words of `spec.usages`, and the object that each stands for.
const EXTENDED_KEY_USAGES: &[(&str, &[u64])] = &[
    ("any", &[2, 5, 29, 37, 0]),
    ("server auth", &[1, 3, 6, 1, 5, 5, 7, 3, 1]),
    ("client auth", &[1, 3, 6, 1, 5, 5, 7, 3, 2]),
    ("code signing", &[1, 3, 6, 1, 5, 5, 7, 3, 3]),
    ("email protection", &[1, 3, 6, 1, 5, 5, 7, 3, 4]),
    ("s/mime", &[1, 3, 6, 1, 5, 5, 7, 3, 4]),
    ("ipsec end system", &[1, 3, 6, 1, 5, 5, 7, 3, 5]),
    ("ipsec tunnel", &[1, 3, 6, 1, 5, 5, 7, 3, 6]),
    ("ipsec user", &[1, 3, 6, 1, 5, 5, 7, 3, 7]),
    ("timestamping", &[1, 3, 6, 1, 5, 5, 7, 3, 8]),
    ("ocsp signing", &[1, 3, 6, 1, 5, 5, 7, 3, 9]),
    ("microsoft sgc", &[1, 3, 6, 1, 4, 1, 311, 10, 3, 3]),
    ("netscape sgc", &[2, 16, 840, 1, 113_730, 4, 1]),
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
    Key(rcgen::Error),
    #[error("signing key: it is not that of the certificate")]
    OtherKey,
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateRequest {
    pub common_name: String,
    pub organizations: Vec<String>,
    pub dns_names: Vec<String>,
    pub ip_addresses: usize,
    pub email_addresses: usize,
    pub uris: usize,
    subject: Vec<u8>,
    has_subject: bool,
    public_key: Vec<u8>,
    alternative_names: Option<Vec<u8>>,
    /// What is wrong with its signature.
    forged: Option<String>,
}

impl CertificateRequest {
    pub fn from_pem(pem: &[u8]) -> Result<Self, SigningError> {
        let der = CertificateSigningRequestDer::from_pem_slice(pem);
        let der = der.map_err(|error| SigningError::Request(error.to_string()))?;
        let parsed = X509CertificationRequest::from_der(&der);
        let (_, request) = parsed.map_err(|error| SigningError::Request(error.to_string()))?;
        let info = &request.certification_request_info;
        let mut found = Self {
            subject: info.subject.as_raw().to_vec(),
            has_subject: info.subject.iter().next().is_some(),
            public_key: info.subject_pki.raw.to_vec(),
            forged: request.verify_signature().err().map(|error| error.to_string()),
            ..Self::default()
        };
        let names = info.subject.iter_common_name().filter_map(|name| name.as_str().ok());
        found.common_name = names.last().unwrap_or_default().to_owned();
        let organizations = info.subject.iter_organization().filter_map(|name| name.as_str().ok());
        found.organizations = organizations.map(str::to_owned).collect();
        for attribute in info.iter_attributes() {
            let ParsedCriAttribute::ExtensionRequest(extensions) = attribute.parsed_attribute() else { continue };
            for extension in &extensions.extensions {
                if let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() {
                    found.alternative_names = Some(extension.value.to_vec());
                    names.general_names.iter().for_each(|name| found.add(name));
                }
            }
        }
        Ok(found)
    }

    fn add(&mut self, name: &GeneralName<'_>) {
        match name {
            GeneralName::DNSName(name) => self.dns_names.push((*name).to_owned()),
            GeneralName::IPAddress(_) => self.ip_addresses += 1,
            GeneralName::RFC822Name(_) => self.email_addresses += 1,
            GeneralName::URI(_) => self.uris += 1,
            _ => {}
        }
    }
}

/// From when until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub begin: Timestamp,
    pub end: Timestamp,
}

/// An authority's certificate and key.
pub struct Signer {
    subject: Vec<u8>,
    key_identifier: Option<Vec<u8>>,
    key: KeyPair,
    algorithm: Vec<u8>,
    /// Nothing that it signs is valid any longer.
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
        let der = CertificateDer::from_pem_slice(cert_pem.as_bytes()).map_err(|error| unusable(&error))?;
        let (_, certificate) = X509Certificate::from_der(&der).map_err(|error| unusable(&error))?;
        let key = KeyPair::from_pem(key_pem).map_err(SigningError::Key)?;
        if certificate.public_key().raw != key.subject_public_key_info() {
            return Err(SigningError::OtherKey);
        }
        let key_identifier = certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(identifier) => Some(identifier.0.to_vec()),
            _ => None,
        });
        let end = Timestamp::from_second(certificate.validity().not_after.timestamp());
        Ok(Self {
            subject: certificate.subject().as_raw().to_vec(),
            key_identifier,
            algorithm: algorithm(&key)?,
            key,
            end: end.map_err(|error| unusable(&error))?,
        })
    }

    /// The certificate that was asked for, PEM.
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
        let content = construct_der(|writer| self.write_content(writer, request, usages, validity, serial));
        let signature = self.key.sign(&content).map_err(SigningError::Key)?;
        let certificate = construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_der(&content);
                writer.next().write_der(&self.algorithm);
                writer.next().write_bitvec_bytes(&signature, signature.len() * 8);
            });
        });
        Ok(pem("CERTIFICATE", &certificate))
    }

    /// RFC 5280: TBSCertificate.
    fn write_content(
        &self,
        writer: DERWriter<'_>,
        request: &CertificateRequest,
        usages: &[String],
        validity: Validity,
        serial: [u8; 16],
    ) {
        writer.write_sequence(|writer| {
            // Version 3 is written as 2.
            writer.next().write_tagged(Tag::context(0), |writer| writer.write_u8(2));
            writer.next().write_bigint_bytes(&serial, true);
            writer.next().write_der(&self.algorithm);
            writer.next().write_der(&self.subject);
            writer.next().write_sequence(|writer| {
                writer.next().write_der(&time(validity.begin));
                writer.next().write_der(&time(validity.end));
            });
            writer.next().write_der(&request.subject);
            writer.next().write_der(&request.public_key);
            writer.next().write_tagged(Tag::context(3), |writer| {
                writer.write_sequence(|writer| {
                    for (oid, critical, value) in self.extensions(request, usages) {
                        write_extension(writer.next(), oid, critical, &value);
                    }
                });
            });
        });
    }

    /// Each with whether a reader that does not know it has to refuse the certificate.
    fn extensions(&self, request: &CertificateRequest, usages: &[String]) -> Vec<(&'static [u64], bool, Vec<u8>)> {
        let mut extensions = Vec::new();
        extensions.extend(key_usage(usages).map(|value| (KEY_USAGE, true, value)));
        extensions.extend(extended_key_usage(usages).map(|value| (EXTENDED_KEY_USAGE, false, value)));
        // Empty: it is no authority.
        extensions.push((BASIC_CONSTRAINTS, true, construct_der(|writer| writer.write_sequence(|_| ()))));
        if let Some(identifier) = &self.key_identifier {
            let value = construct_der(|writer| {
                writer.write_sequence(|writer| {
                    writer.next().write_tagged_implicit(Tag::context(0), |writer| writer.write_bytes(identifier));
                });
            });
            extensions.push((AUTHORITY_KEY_IDENTIFIER, false, value));
        }
        if let Some(names) = &request.alternative_names {
            extensions.push((SUBJECT_ALTERNATIVE_NAME, !request.has_subject, names.clone()));
        }
        extensions
    }
}

fn write_extension(writer: DERWriter<'_>, oid: &[u64], critical: bool, value: &[u8]) {
    writer.write_sequence(|writer| {
        writer.next().write_oid(&ObjectIdentifier::from_slice(oid));
        if critical {
            writer.next().write_bool(true);
        }
        writer.next().write_bytes(value);
    });
}

/// Bits count from the highest of the first byte; those after the last that is set are not written.
fn key_usage(usages: &[String]) -> Option<Vec<u8>> {
    let wanted = KEY_USAGES.iter().filter(|(word, _)| usages.iter().any(|usage| usage == word)).map(|(_, bit)| *bit);
    let mut bytes = [0_u8; 2];
    let mut length = 0;
    for bit in wanted {
        bytes[usize::from(bit / 8)] |= 0x80 >> (bit % 8);
        length = length.max(usize::from(bit) + 1);
    }
    (length > 0).then(|| construct_der(|writer| writer.write_bitvec_bytes(&bytes[..length.div_ceil(8)], length)))
}

fn extended_key_usage(usages: &[String]) -> Option<Vec<u8>> {
    let mut wanted: Vec<&[u64]> = Vec::new();
    for (word, oid) in EXTENDED_KEY_USAGES {
        if usages.iter().any(|usage| usage == word) && !wanted.contains(oid) {
            wanted.push(oid);
        }
    }
    let value = || {
        construct_der(|writer| {
            writer.write_sequence(|writer| {
                wanted.iter().for_each(|oid| writer.next().write_oid(&ObjectIdentifier::from_slice(oid)));
            });
        })
    };
    (!wanted.is_empty()).then(value)
}

/// UTCTime, and GeneralizedTime where two digits of the year do not do.
fn time(at: Timestamp) -> Vec<u8> {
    let at = at.to_zoned(TimeZone::UTC);
    let (tag, text) = if at.year() < YEAR_OF_FOUR_DIGITS {
        (0x17, at.strftime("%y%m%d%H%M%SZ").to_string())
    } else {
        (0x18, at.strftime("%Y%m%d%H%M%SZ").to_string())
    };
    let length = u8::try_from(text.len()).expect("fifteen characters at most");
    [&[tag, length], text.as_bytes()].concat()
}

/// What the authority's key signs with, as an AlgorithmIdentifier.
fn algorithm(key: &KeyPair) -> Result<Vec<u8>, SigningError> {
    let known: [(&rcgen::SignatureAlgorithm, &[u64], bool); 4] = [
        (&rcgen::PKCS_ECDSA_P256_SHA256, &[1, 2, 840, 10045, 4, 3, 2], false),
        (&rcgen::PKCS_ECDSA_P384_SHA384, &[1, 2, 840, 10045, 4, 3, 3], false),
        (&rcgen::PKCS_ED25519, &[1, 3, 101, 112], false),
        (&rcgen::PKCS_RSA_SHA256, &[1, 2, 840, 113_549, 1, 1, 11], true),
    ];
    let found = known.into_iter().find(|(algorithm, ..)| *algorithm == PublicKeyData::algorithm(key));
    let (_, oid, has_parameters) = found.ok_or(SigningError::Key(rcgen::Error::UnsupportedSignatureAlgorithm))?;
    Ok(construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_oid(&ObjectIdentifier::from_slice(oid));
            if has_parameters {
                writer.next().write_null();
            }
        });
    }))
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines = text.as_bytes().chunks(PEM_COLUMNS).map(|line| String::from_utf8_lossy(line).into_owned() + "\n");
    format!("-----BEGIN {label}-----\n{}-----END {label}-----\n", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{pki, tls};
    use pki::Authority;
    use rcgen::{CertificateParams, DistinguishedName, DnType};
    use rustls_pki_types::UnixTime;
    use std::fs;
    use std::time::Duration;
    use x509_parser::prelude::KeyUsage;

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
        assert_eq!((request.common_name.as_str(), request.organizations.as_slice()), ("ada", &["dev".to_owned()][..]));
        assert_eq!((request.dns_names.as_slice(), request.ip_addresses), (&["web.example".to_owned()][..], 1));
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
        let extended = certificate.extended_key_usage().unwrap().unwrap().value;
        assert!(extended.client_auth && !extended.server_auth);
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
        request.subject = construct_der(|writer| {
            writer.write_sequence(|writer| {
                for (oid, text) in [([2, 5, 4, 10], "dev"), ([2, 5, 4, 10], "ops"), ([2, 5, 4, 3], "ada")] {
                    writer.next().write_set(|writer| {
                        writer.next().write_sequence(|writer| {
                            writer.next().write_oid(&ObjectIdentifier::from_slice(&oid));
                            writer.next().write_utf8_string(text);
                        });
                    });
                }
            });
        });
        let validity = Validity { begin: at("2026-03-01T00:00:00Z"), end: at("2051-03-01T00:00:00Z") };
        let pem = signer.sign(&request, &usages(&["any"]), validity, [1; 16]).unwrap();
        let chain = tls::certificates("client", &pem).unwrap();
        let groups = vec!["dev".to_owned(), "ops".to_owned()];
        assert_eq!(pki::subject(&chain[0]), Some(("ada".to_owned(), groups)));
        let (_, certificate) = X509Certificate::from_der(&chain[0]).unwrap();
        assert_eq!(certificate.validity().not_after.timestamp(), validity.end.as_second());
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
