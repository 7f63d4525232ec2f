//! Where connections go: real sockets, or services registered by name inside one process.
//!
//! A component says "connect to https://apiserver:6443"; whether that is TLS over TCP or a function call is
//! decided here, once, by the environment it runs in.

use axum::body::Body;
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tower::util::BoxCloneSyncService;

/// An HTTP service that can be called in process. Failures are responses, never errors.
pub type HttpService = BoxCloneSyncService<http::Request<Body>, http::Response<Body>, Infallible>;

/// What the transport knows about the peer. The TLS acceptor and the in-process transport both attach it to
/// the request's extensions, so that both pass the same authenticators. Requests of one connection share the certificates.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// The client certificate chain, leaf first, as verified when this request came; empty where the client showed none.
    pub peer_certificates: Arc<[CertificateDer<'static>]>,
    /// The client showed a certificate that the client CA did not sign, or that is not valid now: it is not anonymous.
    pub rejected_certificate: bool,
    /// The leaf that the client showed, where the authority of proxies has signed it.
    pub proxy_certificate: Option<Arc<CertificateDer<'static>>>,
    pub remote_address: SocketAddr,
}

/// In the extensions of an in-process answer: it is none, the connection broke before one came. The request may have
/// been carried out.
#[derive(Clone, Debug)]
pub struct Broken(pub &'static str);

/// Real sockets, or the in-process registry.
#[derive(Clone, Debug, Default)]
pub enum Network {
    #[default]
    Sockets,
    InProcess(Registry),
}

/// In-process services by authority (`apiserver:6443`).
#[derive(Clone, Default)]
pub struct Registry(Arc<Mutex<BTreeMap<String, HttpService>>>);

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.lock().keys()).finish()
    }
}

impl Registry {
    pub fn register(&self, authority: &str, service: HttpService) {
        self.0.lock().insert(authority.to_owned(), service);
    }

    /// Connections to this authority are refused from now on, as those to a stopped process.
    pub fn remove(&self, authority: &str) {
        self.0.lock().remove(authority);
    }

    /// `None` is "connection refused".
    pub fn connect(&self, authority: &str) -> Option<HttpService> {
        self.0.lock().get(authority).cloned()
    }
}
