//! `Network`: connections over real sockets, or to services registered by name inside one process.
//!
//! A component connects to `https://apiserver:6443`. Its environment decides once whether that is TLS over TCP or a
//! function call.

use axum::body::Body;
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tower::util::BoxCloneSyncService;

/// An HTTP service that is called in process. Failures are responses, never errors.
pub type HttpService = BoxCloneSyncService<http::Request<Body>, http::Response<Body>, Infallible>;

/// The transport's knowledge of the peer. The TLS acceptor and the in-process transport both attach it to the request's
/// extensions, so that both pass the same authenticators. Requests of one connection share the certificates.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// Client certificate chain, leaf first, as verified when this request came; empty if the client presented none.
    pub peer_certificates: Arc<[CertificateDer<'static>]>,
    /// True if the client presented a certificate that the client CA did not sign, or that is not valid now. Such a client
    /// is not anonymous.
    pub rejected_certificate: bool,
    /// Leaf certificate of the client, if the request-header CA signed it.
    pub proxy_certificate: Option<Arc<CertificateDer<'static>>>,
    pub remote_address: SocketAddr,
}

/// An extension of an in-process response: the connection broke before a real response came. The request may have been
/// carried out.
#[derive(Clone, Debug)]
pub struct Broken(pub &'static str);

/// How connections are made: over real sockets, or through the in-process registry.
#[derive(Clone, Debug, Default)]
pub enum Network {
    #[default]
    Sockets,
    InProcess(Registry),
}

/// The in-process services, by authority (`apiserver:6443`).
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

    /// Refuses connections to this authority from now on, like those to a stopped process.
    pub fn remove(&self, authority: &str) {
        self.0.lock().remove(authority);
    }

    /// Returns the service; `None` stands for "connection refused".
    pub fn connect(&self, authority: &str) -> Option<HttpService> {
        self.0.lock().get(authority).cloned()
    }
}
