//! The paths of a node's agent.
//!
//! Corresponds to InstallDefaultHandlers and InstallDebuggingHandlers in pkg/kubelet/server/server.go.

use super::commands::{self, Errand};
use super::logs::{self, Place, Refusal};
use super::pages;
use crate::fleet::Fleet;
use axum::Router;
use axum::body::Body;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Path, Query, Request, State};
use axum::response::IntoResponse;
use axum::routing::{any, get};
use http::request::Parts;
use http::{HeaderValue, Response, header};
use serde_json::json;
use std::sync::Arc;

type Pairs = Query<Vec<(String, String)>>;
type ContainerPath = Path<(String, String, String)>;

pub fn routes(fleet: Arc<Fleet>) -> Router {
    Router::new()
        .route("/pods", get(pods))
        .route("/containerLogs/{namespace}/{pod}/{container}", get(log))
        .route("/exec/{namespace}/{pod}/{container}", any(exec))
        .route("/attach/{namespace}/{pod}/{container}", any(attach))
        .route("/podProxy/{namespace}/{pod}/{port}", any(page))
        .route("/podProxy/{namespace}/{pod}/{port}/", any(page))
        .route("/podProxy/{namespace}/{pod}/{port}/{*path}", any(page))
        .with_state(fleet)
}

/// The node that the Host header names.
pub fn node_name(parts: &Parts) -> String {
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    host.split_once(':').map_or(host, |(name, _)| name).to_owned()
}

/// A text, as the kubelet refuses and as a page is.
fn text((code, text): Refusal) -> Response<Body> {
    let mut answer = Response::new(Body::from(text));
    *answer.status_mut() = code;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

async fn pods(State(fleet): State<Arc<Fleet>>, request: Request) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let node = node_name(&parts);
    let Some(pods) = fleet.pods_of(&node) else {
        return text((http::StatusCode::NOT_FOUND, format!("node {node:?} is not simulated here\n")));
    };
    let items: Vec<_> = pods.iter().filter_map(|pod| serde_json::to_value(&**pod).ok()).collect();
    axum::Json(json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})).into_response()
}

async fn log(
    State(fleet): State<Arc<Fleet>>,
    Path((namespace, pod, container)): ContainerPath,
    Query(query): Pairs,
    request: Request,
) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let place = Place { node: node_name(&parts), namespace, pod, container };
    logs::answer(&fleet, place, &query).await.unwrap_or_else(text)
}

/// An upgrade to something else than a WebSocket is none.
type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;

async fn exec(
    State(fleet): State<Arc<Fleet>>,
    Path((namespace, pod, container)): ContainerPath,
    Query(query): Pairs,
    upgrade: Upgrade,
    request: Request,
) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let place = Place { node: node_name(&parts), namespace, pod, container };
    let errand = Errand::Exec(commands::command(&query));
    commands::answer(&fleet, place, &query, errand, upgrade.ok()).unwrap_or_else(text)
}

async fn attach(
    State(fleet): State<Arc<Fleet>>,
    Path((namespace, pod, container)): ContainerPath,
    Query(query): Pairs,
    upgrade: Upgrade,
    request: Request,
) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let place = Place { node: node_name(&parts), namespace, pod, container };
    commands::answer(&fleet, place, &query, Errand::Attach, upgrade.ok()).unwrap_or_else(text)
}

async fn page(State(fleet): State<Arc<Fleet>>, request: Request) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let node = node_name(&parts);
    let path = parts.uri.path().trim_start_matches('/');
    let [_, namespace, pod, port, rest] = five(path);
    let Ok(port) = port.parse() else {
        return text((http::StatusCode::BAD_REQUEST, format!("{port:?} is no port\n")));
    };
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let line = format!("{} /{rest}{query}", parts.method);
    match pages::answer(&fleet, &node, (namespace, pod, port), &line) {
        Ok(page) => text((http::StatusCode::OK, page)),
        Err(status) => {
            let code = http::StatusCode::from_u16(status.code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
            (code, axum::Json(status.to_value())).into_response()
        }
    }
}

/// The first four segments of a path, and the rest.
fn five(path: &str) -> [&str; 5] {
    let mut parts = path.splitn(5, '/');
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}
