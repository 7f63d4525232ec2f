//! TLS configurations of servers and clients: certificates, trusted authorities and protocols.
//!
//! Corresponds to k8s.io/apiserver/pkg/server/secure_serving.go and k8s.io/client-go/transport.

use crate::kubeconfig::Connection;
use crate::named_certificates::{NamedCertificates, names_of};
use crate::self_signed::AuthorityOrItself;
use crate::tls_policy::TlsPolicy;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use std::sync::Arc;

/// Protocols in order of preference: HTTP/2 first, as in Go.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// An unusable key or certificate; the text says which.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{what}: not PEM: {source}")]
    Pem { what: &'static str, source: rustls_pki_types::pem::Error },
    #[error("{what}: no certificate in it")]
    NoCertificate { what: &'static str },
    #[error("{what}: {source}")]
    Rejected { what: &'static str, source: rustls::Error },
    #[error("authority: {0}")]
    Authority(#[from] rustls::server::VerifierBuilderError),
}

/// Certificates of a server and the authorities of its clients, all in PEM.
#[derive(Clone, Default)]
pub struct ServerTls {
    /// Certificate chain, leaf first.
    pub cert: String,
    pub key: String,
    /// Authority of client certificates. If it is set, the server asks clients for a certificate; they may send none.
    pub client_ca: Option<String>,
    /// Authority (request-header CA) of the authenticating proxies' certificates.
    pub proxy_ca: Option<String>,
    /// Certificates for clients that ask for certain names.
    pub named: Vec<NamedCertificate>,
    pub policy: TlsPolicy,
}

/// A certificate chain and its key, PEM, for these names or, without any, for the names in the certificate.
#[derive(Clone)]
pub struct NamedCertificate {
    pub names: Vec<String>,
    pub cert: String,
    pub key: String,
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerTls").field("client_ca", &self.client_ca.is_some()).finish_non_exhaustive()
    }
}

/// Makes ring the process's cryptography provider. A second call changes nothing.
pub fn install_provider() {
    let _ = ring::default_provider().install_default();
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Returns all certificates of a PEM text, in order.
pub fn certificates(what: &'static str, pem: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let found = found.map_err(|source| TlsError::Pem { what, source })?;
    if found.is_empty() { Err(TlsError::NoCertificate { what }) } else { Ok(found) }
}

fn private_key(what: &'static str, pem: &str) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|source| TlsError::Pem { what, source })
}

fn roots(what: &'static str, pem: &str) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(what, pem)? {
        store.add(certificate).map_err(|source| TlsError::Rejected { what, source })?;
    }
    Ok(store)
}

/// Returns a verifier of clients' chains against the client CA.
pub fn client_verifier(ca_pem: &str) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let roots = Arc::new(roots("client CA", ca_pem)?);
    Ok(WebPkiClientVerifier::builder_with_provider(roots, provider()).allow_unauthenticated().build()?)
}

pub fn server_config(tls: &ServerTls) -> Result<ServerConfig, TlsError> {
    let what = "serving certificate";
    let provider = Arc::new(tls.policy.provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(tls.policy.versions())
        .map_err(|source| TlsError::Rejected { what, source })?;
    let trusted: Vec<&str> = [&tls.client_ca, &tls.proxy_ca].into_iter().flatten().map(String::as_str).collect();
    let builder = if trusted.is_empty() {
        builder.with_no_client_auth()
    } else {
        builder.with_client_cert_verifier(Arc::new(AskAnyClient(client_verifier(&trusted.join("\n"))?)))
    };
    let certified = |cert: &str, key: &str| {
        let (chain, key) = (certificates(what, cert)?, private_key("serving key", key)?);
        let certified = CertifiedKey::from_der(chain, key, &provider);
        certified.map(Arc::new).map_err(|source| TlsError::Rejected { what, source })
    };
    let mut named = Vec::new();
    for one in &tls.named {
        let certificate = certified(&one.cert, &one.key)?;
        let leaf = certificate.cert.first().map(|leaf| names_of(leaf)).unwrap_or_default();
        let names = if one.names.is_empty() { leaf } else { one.names.clone() };
        named.extend(names.into_iter().map(|name| (name.to_ascii_lowercase(), certificate.clone())));
    }
    let default = certified(&tls.cert, &tls.key)?;
    let mut config = builder.with_cert_resolver(Arc::new(NamedCertificates { default, named }));
    config.alpn_protocols = ALPN.iter().map(|p| p.to_vec()).collect();
    Ok(config)
}

/// Protocols that a client offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocols {
    Http2AndHttp1,
    /// For connections that are to be upgraded (exec, port-forward), since HTTP/2 has no upgrade.
    Http1Only,
}

pub fn client_config(connection: &Connection, protocols: Protocols) -> Result<ClientConfig, TlsError> {
    let what = "client certificate";
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|source| TlsError::Rejected { what, source })?;
    let builder = if connection.insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(TrustAnyServer(provider())))
    } else {
        match &connection.ca_pem {
            Some(ca) => {
                let what = "certificate authority";
                let (roots, trusted) = (Arc::new(roots(what, ca)?), certificates(what, ca)?);
                let inner = WebPkiServerVerifier::builder_with_provider(roots, provider()).build()?;
                builder.dangerous().with_custom_certificate_verifier(Arc::new(AuthorityOrItself { inner, trusted }))
            }
            None => builder.with_root_certificates(RootCertStore::empty()),
        }
    };
    let mut config = match (&connection.client_cert_pem, &connection.client_key_pem) {
        (Some(cert), Some(key)) => {
            let chain = certificates(what, cert)?;
            let key = private_key("client key", key)?;
            builder.with_client_auth_cert(chain, key).map_err(|source| TlsError::Rejected { what, source })?
        }
        _ => builder.with_no_client_auth(),
    };
    config.alpn_protocols = match protocols {
        Protocols::Http2AndHttp1 => ALPN.iter().map(|p| p.to_vec()).collect(),
        Protocols::Http1Only => vec![ALPN[1].to_vec()],
    };
    Ok(config)
}

/// Lets the handshake succeed with a certificate that the client CA did not sign. Such a client gets 401 from the
/// authenticators, as in Kubernetes, and not a broken connection. The handshake proves possession of the key; `serving`
/// checks the chain afterwards.
#[derive(Debug)]
struct AskAnyClient(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AskAnyClient {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Accepts every server, for `insecure-skip-tls-verify: true`.
#[derive(Debug)]
struct TrustAnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{EC_KEYS, RSA_KEYS};
    use crate::private_key::PrivateKey;

    #[test]
    fn a_server_has_its_key_in_any_form() {
        for key in [RSA_KEYS, EC_KEYS].concat() {
            let pair = PrivateKey::from_pem(key).unwrap().key_pair().unwrap();
            let cert = rcgen::CertificateParams::default().self_signed(&pair).unwrap().pem();
            server_config(&ServerTls { cert, key: key.to_owned(), ..ServerTls::default() }).unwrap();
        }
    }
}
