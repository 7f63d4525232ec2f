//! The paths of a node's agent.
//!
//! Corresponds to InstallDefaultHandlers and InstallDebuggingHandlers in pkg/kubelet/server/server.go.

use super::commands::{self, Errand};
use super::forward::{self, Sandbox};
use super::logs::{self, Place};
use super::pages::{self, Port};
use super::plain::text;
use super::upgrade::Upgrade;
use crate::fleet::Fleet;
use axum::Router;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path, Query, Request, State};
use axum::response::IntoResponse;
use axum::routing::{any, get};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode, header};
use serde_json::json;
use std::sync::Arc;

type Pairs = Query<Vec<(String, String)>>;

pub fn routes(fleet: Arc<Fleet>) -> Router {
    Router::new()
        .route("/pods", get(pods))
        .route("/containerLogs/{namespace}/{pod}/{container}", get(log))
        .route("/exec/{namespace}/{pod}/{container}", any(exec))
        .route("/attach/{namespace}/{pod}/{container}", any(attach))
        .route("/portForward/{namespace}/{pod}", any(forward))
        .route("/podProxy/{namespace}/{pod}/{port}", any(page))
        .route("/podProxy/{namespace}/{pod}/{port}/", any(page))
        .route("/podProxy/{namespace}/{pod}/{port}/{*path}", any(page))
        .with_state(fleet)
}

/// The node that the Host header names.
pub fn node_name(parts: &Parts) -> String {
    header_node(&parts.headers)
}

fn header_node(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    host.split_once(':').map_or(host, |(name, _)| name).to_owned()
}

async fn pods(State(fleet): State<Arc<Fleet>>, request: Request) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let node = node_name(&parts);
    let Some(pods) = fleet.pods_of(&node) else {
        return text((StatusCode::NOT_FOUND, format!("node {node:?} is not simulated here\n")));
    };
    let items: Vec<_> = pods.iter().filter_map(|pod| serde_json::to_value(&**pod).ok()).collect();
    axum::Json(json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})).into_response()
}

impl<S: Send + Sync> FromRequestParts<S> for Place {
    type Rejection = PathRejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let Path((namespace, pod, container)) = Path::from_request_parts(parts, state).await?;
        Ok(Self { node: node_name(parts), namespace, pod, container })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Sandbox {
    type Rejection = PathRejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let Path((namespace, pod)) = Path::from_request_parts(parts, state).await?;
        Ok(Self { node: node_name(parts), namespace, pod })
    }
}

async fn log(State(fleet): State<Arc<Fleet>>, place: Place, Query(query): Pairs) -> Response<Body> {
    logs::answer(&fleet, place, &query).await.unwrap_or_else(text)
}

async fn exec(State(fleet): State<Arc<Fleet>>, place: Place, Query(query): Pairs, upgrade: Upgrade) -> Response<Body> {
    let errand = Errand::Exec(commands::command(&query));
    commands::answer(&fleet, place, &query, errand, upgrade).unwrap_or_else(text)
}

async fn attach(
    State(fleet): State<Arc<Fleet>>,
    place: Place,
    Query(query): Pairs,
    upgrade: Upgrade,
) -> Response<Body> {
    commands::answer(&fleet, place, &query, Errand::Attach, upgrade).unwrap_or_else(text)
}

async fn forward(
    State(fleet): State<Arc<Fleet>>,
    sandbox: Sandbox,
    Query(query): Pairs,
    upgrade: Upgrade,
) -> Response<Body> {
    forward::answer(&fleet, sandbox, &query, upgrade).unwrap_or_else(text)
}

async fn page(State(fleet): State<Arc<Fleet>>, mut request: Request) -> Response<Body> {
    let node = header_node(request.headers());
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let [_, namespace, pod, port, rest] = five(&path).map(str::to_owned);
    let Ok(port) = port.parse() else {
        return text((StatusCode::BAD_REQUEST, format!("{port:?} is no port\n")));
    };
    // As the server in the container sees it.
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    if let Ok(uri) = format!("/{rest}{query}").parse() {
        *request.uri_mut() = uri;
    }
    pages::answer(&fleet, &Port { node, namespace, pod, port }, request).await
}

/// The first four segments of a path, and the rest.
fn five(path: &str) -> [&str; 5] {
    let mut parts = path.splitn(5, '/');
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}
