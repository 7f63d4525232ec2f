//! `NamedCertificates`: selects a server's certificate by the name that the client asks for (SNI), or else the default.
//!
//! Corresponds to `--tls-sni-cert-key` and k8s.io/apiserver/pkg/server/dynamiccertificates/named_certificates.go.

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

#[derive(Debug)]
pub struct NamedCertificates {
    pub default: Arc<CertifiedKey>,
    /// Each name with its certificate; the first match counts.
    pub named: Vec<(String, Arc<CertifiedKey>)>,
}

impl ResolvesServerCert for NamedCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let by_name = hello.server_name().and_then(|wanted| self.named(wanted));
        Some(by_name.unwrap_or(&self.default).clone())
    }
}

impl NamedCertificates {
    fn named(&self, wanted: &str) -> Option<&Arc<CertifiedKey>> {
        let wanted = wanted.to_ascii_lowercase();
        // An exact match wins over a wildcard.
        let exactly = self.named.iter().find(|(name, _)| *name == wanted);
        let (_, rest) = wanted.split_once('.').unwrap_or_default();
        let starred = || self.named.iter().find(|(name, _)| name.strip_prefix("*.").is_some_and(|name| name == rest));
        exactly.or_else(starred).map(|(_, certificate)| certificate)
    }
}

/// Returns the names in a certificate (DER).
pub fn names_of(certificate: &[u8]) -> Vec<String> {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let names = alternatives.iter().flat_map(|names| &names.value.general_names);
    let dns =
        names.filter_map(|name| if let GeneralName::DNSName(name) = name { Some((*name).to_owned()) } else { None });
    let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok().map(str::to_owned));
    let mut names: Vec<String> = dns.chain(common).map(|name| name.to_ascii_lowercase()).collect();
    names.dedup();
    names
}
