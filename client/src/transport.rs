//! `Transport`: sends requests to the server, by TLS over TCP or as function calls in the same process.
//!
//! Corresponds to k8s.io/client-go/transport.

use crate::connector::TlsConnector;
use crate::error::Error;
use crate::shared_connection::{SharedConnection, Unanswered};
use component_base::env::Env;
use component_base::http::{Body, HttpService};
use component_base::kubeconfig::Connection;
use component_base::network::{Broken, ConnectionInfo, Network, Registry};
use component_base::tls::{self, Protocols};
use http::{Request, Response, Uri};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::RwLock;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tower::ServiceExt;

/// A transport that can be replaced.
pub(crate) type SharedTransport = Arc<RwLock<Arc<Transport>>>;

#[derive(Clone)]
pub(crate) enum Transport {
    /// A service that is called directly.
    Service { service: HttpService, peer: ConnectionInfo },
    /// The service that is registered under the authority at the time of the request.
    Registered { registry: Registry, authority: String, peer: ConnectionInfo },
    Sockets {
        http2: Arc<SharedConnection>,
        /// For servers without HTTP/2.
        http1: HyperClient<TlsConnector, Body>,
        scheme: http::uri::Scheme,
        authority: http::uri::Authority,
    },
    /// Another transport, which may be replaced.
    Renewable(SharedTransport),
}

impl Transport {
    /// Makes a transport over the environment's network.
    pub(crate) fn connect(env: &Env, connection: &Connection) -> Result<(Self, String), Error> {
        let uri: Uri = connection.server.parse().map_err(|error| unusable(&connection.server, &error))?;
        let authority = uri.authority().cloned().ok_or_else(|| unusable(&connection.server, &"no host"))?;
        let scheme = uri.scheme().cloned().ok_or_else(|| unusable(&connection.server, &"no scheme"))?;
        let prefix = uri.path().trim_end_matches('/').to_owned();
        let transport = match env.network() {
            Network::InProcess(registry) => Self::Registered {
                registry: registry.clone(),
                authority: authority.to_string(),
                peer: peer(connection)?,
            },
            Network::Sockets => {
                let connector = connector(env, connection)?;
                let is_secure = scheme != http::uri::Scheme::HTTP;
                let http2 = Arc::new(SharedConnection::new(env, connector.clone(), is_secure));
                let http1 = HyperClient::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
                Self::Sockets { http2, http1, scheme, authority }
            }
        };
        Ok((transport, prefix))
    }

    pub(crate) fn service(service: HttpService) -> Self {
        Self::Service { service, peer: anonymous_peer() }
    }

    /// Returns the server's name for metrics.
    pub(crate) fn host(&self) -> String {
        match self {
            Self::Service { .. } => "in-process".to_owned(),
            Self::Registered { authority, .. } => authority.clone(),
            Self::Sockets { authority, .. } => authority.to_string(),
            Self::Renewable(way) => way.read().host(),
        }
    }

    /// Returns the transport that takes the next request.
    fn present(self: &Arc<Self>) -> Arc<Self> {
        match &**self {
            Self::Renewable(way) => way.read().present(),
            _ => self.clone(),
        }
    }

    /// Sends a request whose URI is path and query.
    pub(crate) async fn send(self: &Arc<Self>, mut request: Request<Body>) -> Result<Response<Body>, Error> {
        match &*self.present() {
            Self::Renewable(_) => unreachable!("a transport that may be replaced takes no request itself"),
            Self::Service { service, peer } => call(service.clone(), peer, request).await,
            Self::Registered { registry, authority, peer } => match registry.connect(authority) {
                Some(service) => call(service, peer, request).await,
                None => Err(Error::Transport(format!("{}: connect {authority}: connection refused", line(&request)))),
            },
            Self::Sockets { http2, http1, scheme, authority } => {
                let mut parts = std::mem::take(request.uri_mut()).into_parts();
                parts.scheme = Some(scheme.clone());
                parts.authority = Some(authority.clone());
                let uri = Uri::from_parts(parts).map_err(|error| unusable(request.method().as_str(), &error))?;
                *request.uri_mut() = uri.clone();
                let method = request.method().clone();
                let text = |why: String| format!("{method} {}: {authority}: {why}", uri.path());
                let request = match http2.send(request).await {
                    Ok(answer) => return Ok(answer),
                    Err(Unanswered::Connect(why)) => return Err(Error::Transport(text(why))),
                    Err(Unanswered::Lost(error)) => return Err(Error::Lost(text(chain(&error)))),
                    Err(Unanswered::Http1(request)) => *request,
                };
                http1.request(request).await.map(|answer| answer.map(Body::new)).map_err(|error| {
                    let text = text(chain(&error));
                    if error.is_connect() { Error::Transport(text) } else { Error::Lost(text) }
                })
            }
        }
    }
}

fn connector(env: &Env, connection: &Connection) -> Result<TlsConnector, Error> {
    let tls = tls::client_config(connection, Protocols::Http2AndHttp1)
        .map_err(|error| unusable(&connection.server, &error))?;
    Ok(TlsConnector::new(env, tls, connection.tls_server_name.clone()))
}

/// Returns the connection information of an in-process caller, with the certificates that TLS would have sent.
fn peer(connection: &Connection) -> Result<ConnectionInfo, Error> {
    let peer_certificates = match &connection.client_cert_pem {
        Some(pem) => {
            let chain = tls::certificates("client certificate", pem);
            chain.map_err(|error| unusable(&connection.server, &error))?.into()
        }
        None => Arc::default(),
    };
    Ok(ConnectionInfo { peer_certificates, ..anonymous_peer() })
}

fn anonymous_peer() -> ConnectionInfo {
    ConnectionInfo {
        peer_certificates: Arc::default(),
        rejected_certificate: false,
        proxy_certificate: None,
        remote_address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
    }
}

async fn call(
    service: HttpService,
    peer: &ConnectionInfo,
    mut request: Request<Body>,
) -> Result<Response<Body>, Error> {
    let line = line(&request);
    request.extensions_mut().insert(peer.clone());
    let answer = match service.oneshot(request).await {
        Ok(answer) => answer,
        Err(never) => match never {},
    };
    match answer.extensions().get::<Broken>() {
        Some(Broken(why)) => Err(Error::Transport(format!("{line}: {why}"))),
        None => Ok(answer),
    }
}

/// Returns `GET /api/v1/pods`, for errors.
fn line(request: &Request<Body>) -> String {
    format!("{} {}", request.method(), request.uri().path())
}

fn unusable(what: &str, why: &dyn std::fmt::Display) -> Error {
    Error::Transport(format!("{what}: {why}"))
}

/// Returns an error and all its causes in one line, since hyper's text alone has no details.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}
