//! The paths of a node's agent.
//!
//! Corresponds to InstallDefaultHandlers and InstallDebuggingHandlers in pkg/kubelet/server/server.go.

use super::cadvisor;
use super::exec::handler::{self as exec_handler, CommandRequest};
use super::logs;
use super::metrics::{self, NodeUsage};
use super::plain_text::text;
use super::port_forward::handler as port_forward;
use super::port_forward::pages::{self, PodPort};
use super::stream::upgrade::Upgrade;
use super::target::{ContainerRef, PodRef, node_name};
use crate::fleet::Fleet;
use axum::Router;
use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::{any, get};
use component_base::metrics::TEXT_FORMAT;
use http::{Response, StatusCode, header};
use serde_json::json;
use std::sync::Arc;

type QueryPairs = Query<Vec<(String, String)>>;

pub fn routes(fleet: Arc<Fleet>) -> Router {
    Router::new()
        .route("/pods", get(pods))
        .route("/metrics/resource", get(resource_metrics))
        .route("/metrics/probes", get(probe_metrics))
        .route("/metrics/cadvisor", get(cadvisor_metrics))
        .route("/stats/summary", get(summary))
        .route("/containerLogs/{namespace}/{pod}/{container}", get(log))
        .route("/exec/{namespace}/{pod}/{container}", any(exec))
        .route("/attach/{namespace}/{pod}/{container}", any(attach))
        .route("/portForward/{namespace}/{pod}", any(forward))
        .route("/podProxy/{namespace}/{pod}/{port}", any(page))
        .route("/podProxy/{namespace}/{pod}/{port}/", any(page))
        .route("/podProxy/{namespace}/{pod}/{port}/{*path}", any(page))
        .route_layer(from_fn_with_state(fleet.clone(), guard))
        .with_state(fleet)
}

async fn resource_metrics(State(fleet): State<Arc<Fleet>>, request: Request) -> Response<Body> {
    let node = node_name(request.headers());
    match NodeUsage::of(&fleet, &node) {
        Some(usage) => ([(header::CONTENT_TYPE, TEXT_FORMAT)], usage.metrics()).into_response(),
        None => not_simulated(&node),
    }
}

async fn probe_metrics(State(fleet): State<Arc<Fleet>>, request: Request) -> Response<Body> {
    let node = node_name(request.headers());
    match metrics::probes(&fleet, &node) {
        Some(page) => ([(header::CONTENT_TYPE, TEXT_FORMAT)], page).into_response(),
        None => not_simulated(&node),
    }
}

async fn cadvisor_metrics(State(fleet): State<Arc<Fleet>>, request: Request) -> Response<Body> {
    let node = node_name(request.headers());
    match cadvisor::page(&fleet, &node) {
        Some(page) => ([(header::CONTENT_TYPE, TEXT_FORMAT)], page).into_response(),
        None => not_simulated(&node),
    }
}

async fn summary(State(fleet): State<Arc<Fleet>>, request: Request) -> Response<Body> {
    let node = node_name(request.headers());
    match NodeUsage::of(&fleet, &node) {
        Some(usage) => axum::Json(usage.summary()).into_response(),
        None => not_simulated(&node),
    }
}

/// Answers for a machine that is off or cut off, as a client of its kubelet would find.
async fn guard(State(fleet): State<Arc<Fleet>>, request: Request, next: Next) -> Response<Body> {
    let node = node_name(request.headers());
    match fleet.client_of(&node).is_some() && !fleet.is_reachable(&node) {
        true => text((
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("dial tcp: the machine of node {node:?} does not answer: i/o timeout\n"),
        )),
        false => next.run(request).await,
    }
}

fn not_simulated(node: &str) -> Response<Body> {
    text((StatusCode::NOT_FOUND, format!("node {node:?} is not simulated here\n")))
}

async fn pods(State(fleet): State<Arc<Fleet>>, request: Request) -> Response<Body> {
    let node = node_name(request.headers());
    let Some(pods) = fleet.pods_of(&node) else { return not_simulated(&node) };
    let items: Vec<_> = pods.iter().filter_map(|pod| serde_json::to_value(&**pod).ok()).collect();
    axum::Json(json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})).into_response()
}

async fn log(State(fleet): State<Arc<Fleet>>, container: ContainerRef, Query(query): QueryPairs) -> Response<Body> {
    logs::answer(&fleet, container, &query).await.unwrap_or_else(text)
}

async fn exec(
    State(fleet): State<Arc<Fleet>>,
    container: ContainerRef,
    Query(query): QueryPairs,
    upgrade: Upgrade,
) -> Response<Body> {
    let request = CommandRequest::Exec(exec_handler::command(&query));
    exec_handler::answer(&fleet, container, &query, request, upgrade).unwrap_or_else(text)
}

async fn attach(
    State(fleet): State<Arc<Fleet>>,
    container: ContainerRef,
    Query(query): QueryPairs,
    upgrade: Upgrade,
) -> Response<Body> {
    exec_handler::answer(&fleet, container, &query, CommandRequest::Attach, upgrade).unwrap_or_else(text)
}

async fn forward(
    State(fleet): State<Arc<Fleet>>,
    pod: PodRef,
    Query(query): QueryPairs,
    upgrade: Upgrade,
) -> Response<Body> {
    port_forward::answer(&fleet, pod, &query, upgrade).unwrap_or_else(text)
}

async fn page(State(fleet): State<Arc<Fleet>>, mut request: Request) -> Response<Body> {
    let node = node_name(request.headers());
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let [_, namespace, pod, port, rest] = five_parts(&path).map(str::to_owned);
    let Ok(port) = port.parse() else {
        return text((StatusCode::BAD_REQUEST, format!("{port:?} is no port\n")));
    };
    // The server in the container sees only the part of the path behind the port.
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    if let Ok(uri) = format!("/{rest}{query}").parse() {
        *request.uri_mut() = uri;
    }
    pages::answer(&fleet, &PodPort { node, namespace, pod, port }, request).await
}

/// Splits a path into its first four segments and the rest.
fn five_parts(path: &str) -> [&str; 5] {
    let mut parts = path.splitn(5, '/');
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}
