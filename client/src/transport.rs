//! `Transport`: sends requests to the server, by TLS over TCP or as function calls in the same process.
//!
//! Corresponds to k8s.io/client-go/transport.

use crate::connector::TlsConnector;
use crate::error::Error;
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
use std::time::Duration;
use tower::ServiceExt;

/// Flow-control windows, large enough that one slow stream does not stall the others of its connection.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// Times after which a dead peer is noticed, as in client-go.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// A transport that can be replaced.
pub(crate) type SharedTransport = Arc<RwLock<Arc<Transport>>>;

#[derive(Clone)]
pub(crate) enum Transport {
    /// A service that is called directly.
    Service {
        service: HttpService,
        peer: ConnectionInfo,
    },
    /// The service that is registered under the authority at the time of the request.
    Registered {
        registry: Registry,
        authority: String,
        peer: ConnectionInfo,
    },
    Sockets {
        http: HyperClient<TlsConnector, Body>,
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
            Network::Sockets => Self::Sockets { http: sockets(env, connection)?, scheme, authority },
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

    /// Sends a request whose URI is path and query.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, Error> {
        match self {
            Self::Service { service, peer } => call(service.clone(), peer, request).await,
            Self::Renewable(way) => {
                let way = way.read().clone();
                Box::pin(async move { way.send(request).await }).await
            }
            Self::Registered { registry, authority, peer } => match registry.connect(authority) {
                Some(service) => call(service, peer, request).await,
                None => Err(Error::Transport(format!("{}: connect {authority}: connection refused", line(&request)))),
            },
            Self::Sockets { http, scheme, authority } => {
                let mut parts = std::mem::take(request.uri_mut()).into_parts();
                parts.scheme = Some(scheme.clone());
                parts.authority = Some(authority.clone());
                let uri = Uri::from_parts(parts).map_err(|error| unusable(request.method().as_str(), &error))?;
                *request.uri_mut() = uri.clone();
                let method = request.method().clone();
                let answer = http.request(request).await;
                answer.map(|answer| answer.map(Body::new)).map_err(|error| {
                    let text = format!("{method} {}: {authority}: {}", uri.path(), chain(&error));
                    if error.is_connect() { Error::Transport(text) } else { Error::Lost(text) }
                })
            }
        }
    }
}

fn sockets(env: &Env, connection: &Connection) -> Result<HyperClient<TlsConnector, Body>, Error> {
    let tls = tls::client_config(connection, Protocols::Http2AndHttp1)
        .map_err(|error| unusable(&connection.server, &error))?;
    let connector = TlsConnector::new(env, tls, connection.tls_server_name.clone());
    Ok(HyperClient::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .build(connector))
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
