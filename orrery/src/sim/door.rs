//! `Door`: real HTTPS on loopback in front of a cluster whose clock is virtual. It hands each request over to the thread of the cluster.

use axum::body::{Body, to_bytes};
use bytes::Bytes;
use client::Client;
use component_base::env::Env;
use component_base::kubeconfig::{self, Connection};
use component_base::network::HttpService;
use component_base::options::ServingOptions;
use component_base::pki;
use component_base::serving::SecureServer;
use component_base::tls::ServerTls;
use futures::{StreamExt, stream};
use http::{Method, Request, Response, StatusCode, Uri, header};
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use tokio::sync::{mpsc, oneshot};

/// Most requests that wait for the cluster, for example while its clock runs.
const MAX_WAITING: usize = 256;
/// Most bytes of a request.
const MAX_REQUEST_BYTES: usize = 4 << 20;
/// Most pieces of an answer that its reader has not taken yet.
const MAX_PIECES: usize = 16;

/// A request and the way of its answer.
pub struct Exchange {
    request: Request<Bytes>,
    answer: oneshot::Sender<Response<mpsc::Receiver<Bytes>>>,
}

/// An open port, and the requests that come to it.
pub struct Door {
    /// Such as `https://127.0.0.1:40123`.
    pub server: String,
    pub exchanges: mpsc::Receiver<Exchange>,
}

/// Opens a port, writes a kubeconfig for it, and serves until shutdown.
pub async fn open(env: &Env, kubeconfig: &Path) -> Result<Door, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener = ServingOptions::listen(address).await.map_err(|error| text(&error))?;
    let address = listener.local_addr().map_err(|error| text(&error))?;
    let pair = pki::self_signed(&[address.ip().to_string()], env.wall()).map_err(|error| text(&error))?;
    let random = env.random("door/token");
    let token = format!("{:016x}{:016x}", random.u64(), random.u64());
    let at = format!("https://{address}");
    let connection = Connection {
        server: at.clone(),
        ca_pem: Some(pair.cert_pem.clone()),
        token: Some(token.clone()),
        ..Connection::default()
    };
    kubeconfig::write(kubeconfig, &connection, "study", "admin").map_err(|error| text(&error))?;
    let tls = ServerTls { cert: pair.cert_pem, key: pair.key_pem, ..ServerTls::default() };
    let server = SecureServer::new(listener, &tls).map_err(|error| text(&error))?;
    let (sender, exchanges) = mpsc::channel(MAX_WAITING);
    let bearer = format!("Bearer {token}");
    let service = HttpService::new(tower::service_fn(move |request: Request<Body>| {
        let (sender, bearer) = (sender.clone(), bearer.clone());
        async move { Ok::<_, Infallible>(hand_over(&sender, &bearer, request).await) }
    }));
    let serving = env.clone();
    env.spawn(async move { server.serve(&serving, service).await });
    Ok(Door { server: at, exchanges })
}

async fn hand_over(sender: &mpsc::Sender<Exchange>, bearer: &str, request: Request<Body>) -> Response<Body> {
    let given = request.headers().get(header::AUTHORIZATION).map(|value| value.as_bytes());
    if given != Some(bearer.as_bytes()) {
        return failed(StatusCode::UNAUTHORIZED, "the kubeconfig of this cluster has another token");
    }
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_REQUEST_BYTES).await else {
        return failed(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large, or broke off");
    };
    let (answer, answered) = oneshot::channel();
    let sent = sender.send(Exchange { request: Request::from_parts(parts, body), answer }).await;
    let answer = match sent {
        Ok(()) => answered.await.ok(),
        Err(_) => None,
    };
    let Some(answer) = answer else {
        return failed(StatusCode::SERVICE_UNAVAILABLE, "the cluster is gone, because its run ends or goes back");
    };
    let pieces = |receiver: mpsc::Receiver<Bytes>| {
        stream::unfold(
            receiver,
            |mut receiver| async move { Some((Ok::<_, Infallible>(receiver.recv().await?), receiver)) },
        )
    };
    answer.map(|receiver| Body::from_stream(pieces(receiver)))
}

fn failed(status: StatusCode, why: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{why}\n")));
    *response.status_mut() = status;
    response
}

impl Exchange {
    /// Returns true if somebody asks for pods, as every scheduler does when it begins.
    pub fn asks_for_pods(&self) -> bool {
        self.request.method() == Method::GET && self.request.uri().path().ends_with("/pods")
    }

    /// Lets the cluster answer. A watch lasts until its reader goes; its events come while the clock runs.
    pub async fn perform(self, admin: Client) {
        let (mut parts, body) = self.request.into_parts();
        // Who reads the kubeconfig is the administrator, whom the client stands for.
        parts.headers.remove(header::AUTHORIZATION);
        // The client wants path and query, and HTTP/2 brings the whole URI.
        parts.uri = parts.uri.path_and_query().cloned().map_or_else(Uri::default, Uri::from);
        let response = match admin.send(Request::from_parts(parts, Body::from(body))).await {
            Ok(response) => response,
            Err(error) => failed(StatusCode::BAD_GATEWAY, &error.to_string()),
        };
        let (parts, body) = response.into_parts();
        let (pieces, receiver) = mpsc::channel(MAX_PIECES);
        if self.answer.send(Response::from_parts(parts, receiver)).is_err() {
            return;
        }
        let mut body = body.into_data_stream();
        while let Some(Ok(piece)) = body.next().await {
            if pieces.send(piece).await.is_err() {
                return;
            }
        }
    }
}
