//! Passes requests on to the servers of simulated containers: programs that listen, or pages on each declared port.
//!
//! There is no Kubernetes counterpart: a real container listens on the ports that its image does.

use crate::agent::plain_text::text;
use crate::fleet::Fleet;
use crate::runtime::container::PodContainer;
use crate::runtime::switch::{OutsideConnection, connect_from_outside};
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::IntoResponse;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use proto::Status;
use proto::kinds::api::core::v1::{Pod, PodStatus};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use userland::network::http::{Headers, Malformed, parse_response};
use userland::network::pages::Pages;

/// The time for which a server in a container may take to answer, and how often it is looked at.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// Bytes of a request's body.
const MAX_BODY_BYTES: usize = 16 << 20;
/// The port of the proxy that connects to the container.
const CLIENT_PORT: u16 = 40_000;

/// Returns the running container that declares this TCP port, and what it answers there when no simulated program
/// serves the port.
pub fn listener(pod: &Arc<Pod>, status: &PodStatus, port: u16) -> Option<Pages> {
    let names = pod.spec.as_ref()?.containers.iter().map(|container| container.name.as_str());
    let containers = names.filter_map(|name| PodContainer::new(pod.clone(), status.clone(), name));
    let mut declaring = containers.filter(|container| container.declared_ports().contains(&port));
    declaring.find(PodContainer::is_running)?.pages()
}

/// A port of a pod, as a path names it.
#[derive(Clone, Debug)]
pub struct PodPort {
    pub node: String,
    pub namespace: String,
    pub pod: String,
    pub port: u16,
}

impl PodPort {
    /// True when something listens on the port.
    pub async fn is_open(&self, fleet: &Fleet) -> bool {
        let Some((pod, status)) = fleet.find(&self.node, &self.namespace, &self.pod) else { return false };
        listener(&pod, &status, self.port).is_some() || self.connect(fleet, &pod, &status).await.is_some()
    }

    /// Connects to the server, as the node does it.
    async fn connect(&self, fleet: &Fleet, pod: &Arc<Pod>, status: &PodStatus) -> Option<OutsideConnection> {
        let host = status.host_ip.as_deref().and_then(|ip| ip.parse().ok()).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let client = SocketAddr::new(host, CLIENT_PORT);
        connect_from_outside(&fleet.context_of(&self.node), (pod, status), self.port, client).await
    }

    /// Returns the error of a proxy that cannot connect.
    fn refused(&self, status: &PodStatus, why: &str) -> Response<Body> {
        let address = status.pod_ip.as_deref().unwrap_or_default();
        let why = format!("dial tcp {address}:{}: {why}", self.port);
        refusal(&Status::unavailable(format!("error trying to reach service: {why}")))
    }
}

fn refusal(status: &Status) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (code, axum::Json(status.to_value())).into_response()
}

/// Answers a request to the server behind a port: a simulated program, or pages that stand for one that is not. A
/// client of the latter that upgrades to a WebSocket gets the page as its first message, and then an echo of its own
/// messages.
pub async fn answer(fleet: &Fleet, port: &PodPort, request: Request<Body>) -> Response<Body> {
    let Some((pod, status)) = fleet.find(&port.node, &port.namespace, &port.pod) else {
        return refusal(&Status::not_found("", "pods", &port.pod));
    };
    let (mut parts, body) = request.into_parts();
    if let Some(pages) = listener(&pod, &status, port.port) {
        let (code, page) = pages.page(port.port, &format!("{} {}", parts.method, parts.uri));
        return match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
            Ok(upgrade) => upgrade.on_upgrade(|socket| echo(socket, page)).into_response(),
            Err(_) => text((StatusCode::from_u16(code).unwrap_or(StatusCode::OK), page)),
        };
    }
    let Some(connection) = port.connect(fleet, &pod, &status).await else {
        return port.refused(&status, "connect: connection refused");
    };
    let Ok(body) = axum::body::to_bytes(body, MAX_BODY_BYTES).await else {
        return text((StatusCode::PAYLOAD_TOO_LARGE, "the body is too large\n".to_owned()));
    };
    match exchange(fleet, port, &connection, &sent(&parts, &body)).await {
        Some(response) => received(response),
        None => port.refused(&status, "i/o timeout"),
    }
}

/// Returns a request as it goes over a simulated connection.
fn sent(parts: &Parts, body: &[u8]) -> userland::network::http::Request {
    let of_hop = |name: &str| matches!(name, "connection" | "content-length" | "transfer-encoding" | "upgrade");
    let field = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (!of_hop(name.as_str())).then(|| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
    };
    let mut headers = Headers(parts.headers.iter().filter_map(field).collect());
    headers.0.push(("Connection".to_owned(), "close".to_owned()));
    if !body.is_empty() {
        headers.0.push(("Content-Length".to_owned(), body.len().to_string()));
    }
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
    userland::network::http::Request {
        method: parts.method.to_string(),
        target,
        version: "HTTP/1.1".to_owned(),
        headers,
        body: body.to_vec(),
    }
}

fn received(response: userland::network::http::Response) -> Response<Body> {
    let mut answer = Response::builder().status(response.status);
    let of_hop = |name: &str| name.eq_ignore_ascii_case("connection") || name.eq_ignore_ascii_case("content-length");
    for (name, value) in response.headers.0.iter().filter(|(name, _)| !of_hop(name)) {
        answer = answer.header(name, value);
    }
    let answer = answer.body(Body::from(response.body));
    answer.unwrap_or_else(|_| text((StatusCode::BAD_GATEWAY, "the answer is not HTTP\n".to_owned())))
}

/// Sends a request to a simulated server and waits for its answer.
async fn exchange(
    fleet: &Fleet,
    port: &PodPort,
    connection: &OutsideConnection,
    request: &userland::network::http::Request,
) -> Option<userland::network::http::Response> {
    let (env, bytes) = (fleet.env(), request.bytes());
    let until = env.wall() + ANSWER_LIMIT;
    let (mut unsent, mut arrived) = (bytes.as_slice(), Vec::new());
    let mut pause = SHORTEST_PAUSE;
    while env.wall() < until {
        let taken = connection.connection.push(unsent).unwrap_or(unsent.len());
        unsent = &unsent[taken..];
        connection.advance(&fleet.context_of(&port.node)).await;
        let part = connection.connection.pull();
        let is_over = part.as_ref().is_some_and(Vec::is_empty);
        let has_moved = part.is_some() || taken > 0;
        arrived.extend(part.unwrap_or_default());
        match parse_response(&arrived, &request.method, is_over) {
            Ok(response) => return Some(response),
            Err(Malformed::Incomplete) if !is_over => {}
            Err(_) => return None,
        }
        if !has_moved {
            tokio::select! {
                biased;
                () = env.shutdown().cancelled() => return None,
                () = env.sleep(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
    None
}

async fn echo(mut socket: WebSocket, greeting: String) {
    let mut next = Message::Text(greeting.into());
    while socket.send(next).await.is_ok() {
        next = loop {
            match socket.recv().await {
                Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => break message,
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                _ => return,
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::Kind;
    use serde_json::json;

    #[test]
    fn only_declared_ports_of_running_containers_answer() {
        let pod = |state: &str| {
            let container = json!({"name": "web", "image": "shop", "ports": [
                {"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"},
            ]});
            Pod::decode_value(json!({
                "metadata": {"name": "p", "namespace": "shop"},
                "spec": {"nodeName": "node-1", "containers": [container]},
                "status": {"containerStatuses": [{
                    "name": "web", "image": "nginx", "imageID": "", "ready": true, "restartCount": 0, "state": {state: {}},
                }]},
            }))
            .unwrap()
        };
        let listens = |state: &str, port| {
            let pod = Arc::new(pod(state));
            listener(&pod, pod.status.as_ref().unwrap(), port).map(|pages| pages.page(port, "GET /a?b").1)
        };
        let expected = "Hello from pod shop/p on node-1: container web of image shop, port 80.\nGET /a?b\n";
        assert_eq!(listens("running", 80).as_deref(), Some(expected));
        assert_eq!((listens("running", 53), listens("running", 81), listens("waiting", 80)), (None, None, None));
    }
}
