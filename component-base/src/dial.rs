//! `Dialer`: sends one request on its own connection, which the answer may upgrade. For streams between a client and a
//! node's agent.
//!
//! Corresponds to the dialer of k8s.io/apimachinery/pkg/util/proxy.

use crate::env::Env;
use crate::kubeconfig::Connection;
use crate::network::{Broken, ConnectionInfo, Network};
use crate::tls::{self, Protocols, TlsError};
use axum::body::Body;
use http::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::{CertificateDer, ServerName};
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tower::ServiceExt;

/// Annotation of a Node: `host:port` at which its agent really serves. The Node's addresses are simulated, and nothing
/// connects to them.
pub const AGENT_ENDPOINT: &str = "orrery.dev/agent-endpoint";
/// Annotation of a Service: `host:port` of the real server behind it, whatever its endpoints say.
pub const SERVICE_ENDPOINT: &str = "orrery.dev/service-endpoint";

/// A dead peer is noticed after half a minute of silence and three unanswered probes.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 3;

/// The reason why there is no answer, worded as by Go's dialer, since clients see it.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("dial tcp {authority}: {why}")]
    Connect { authority: String, why: String },
    #[error("tls: {0}")]
    Handshake(io::Error),
    #[error("{0}")]
    Lost(String),
}

/// Identity and trust for the connections to dial.
#[derive(Clone)]
pub struct Dialer {
    env: Env,
    tls: Arc<ClientConfig>,
    certificates: Arc<[CertificateDer<'static>]>,
    /// Name that the server's certificate must have, if not the dialled host.
    server_name: Option<String>,
    connect_limit: Duration,
}

impl Dialer {
    /// The field `server` of `identity` is ignored.
    pub fn new(env: &Env, identity: &Connection, connect_limit: Duration) -> Result<Self, TlsError> {
        let certificates = match &identity.client_cert_pem {
            Some(pem) => tls::certificates("client certificate", pem)?.into(),
            None => Arc::default(),
        };
        let tls = Arc::new(tls::client_config(identity, Protocols::Http1Only)?);
        let server_name = identity.tls_server_name.clone();
        Ok(Self { env: env.clone(), tls, certificates, server_name, connect_limit })
    }

    /// Sends one request, whose URI is path and query, to `host:port`. Returns answers of any code; one of 101 can be passed
    /// to `hyper::upgrade::on`.
    pub async fn request(&self, authority: &str, request: Request<Body>) -> Result<Response<Body>, DialError> {
        match self.env.network() {
            Network::InProcess(registry) => {
                let Some(service) = registry.connect(authority) else {
                    return Err(refused(authority, "connect: connection refused"));
                };
                let answer = service.oneshot(self.with_identity(request)).await;
                let answer = answer.unwrap_or_else(|never| match never {});
                match answer.extensions().get::<Broken>() {
                    Some(Broken(why)) => Err(DialError::Lost((*why).to_owned())),
                    None => Ok(answer),
                }
            }
            Network::Sockets => self.over_tls(authority, request).await,
        }
    }

    /// Adds the identity that a TLS handshake would show, for an in-process request.
    fn with_identity(&self, mut request: Request<Body>) -> Request<Body> {
        request.extensions_mut().insert(ConnectionInfo {
            peer_certificates: self.certificates.clone(),
            rejected_certificate: false,
            proxy_certificate: None,
            remote_address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        });
        request
    }

    async fn over_tls(&self, authority: &str, request: Request<Body>) -> Result<Response<Body>, DialError> {
        let connected = self.env.timeout(self.connect_limit, self.connect(authority)).await;
        let stream = connected.unwrap_or_else(|_| Err(refused(authority, "i/o timeout")))?;
        let lost = |error: hyper::Error| DialError::Lost(error.to_string());
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
        let shutdown = self.env.shutdown().clone();
        self.env.spawn(async move {
            tokio::select! {
                biased;
                _ = connection.with_upgrades() => {}
                () = shutdown.cancelled() => {}
            }
        });
        Ok(sender.send_request(request).await.map_err(lost)?.map(Body::new))
    }

    async fn connect(&self, authority: &str) -> Result<tokio_rustls::client::TlsStream<TcpStream>, DialError> {
        let tcp = TcpStream::connect(authority).await.map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
                _ => error.to_string(),
            };
            refused(authority, &why)
        })?;
        let keepalive = TcpKeepalive::new()
            .with_time(KEEPALIVE_AFTER)
            .with_interval(KEEPALIVE_INTERVAL)
            .with_retries(KEEPALIVE_RETRIES);
        tcp.set_nodelay(true)
            .and_then(|()| SockRef::from(&tcp).set_tcp_keepalive(&keepalive))
            .map_err(DialError::Handshake)?;
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host).trim_matches(['[', ']']);
        let name = self.server_name.as_deref().unwrap_or(host).to_owned();
        let name = ServerName::try_from(name).map_err(|error| refused(authority, &error.to_string()))?;
        let connector = tokio_rustls::TlsConnector::from(self.tls.clone());
        connector.connect(name, tcp).await.map_err(DialError::Handshake)
    }
}

fn refused(authority: &str, why: &str) -> DialError {
    DialError::Connect { authority: authority.to_owned(), why: why.to_owned() }
}
