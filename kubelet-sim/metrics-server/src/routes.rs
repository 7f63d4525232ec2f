//! The paths of the group.
//!
//! Corresponds to pkg/api of sigs.k8s.io/metrics-server.

use crate::access::is_switched_on;
use crate::answers::{self, Item, Scope, Selection};
use crate::discovery::{self, GROUP_VERSION_PATH};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::response::IntoResponse;
use axum::routing::get;
use http::header::ACCEPT;
use http::{HeaderMap, Response, StatusCode};
use proto::Status;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where the usage of nodes and pods comes from.
pub trait Source: Send + Sync + 'static {
    /// Returns what is selected. Pods without a running container are left out.
    fn items(&self, scope: &Scope, selection: &Selection) -> Vec<Item>;
}

type Shared = Arc<dyn Source>;
type QueryPairs = Query<BTreeMap<String, String>>;

pub fn routes(source: Arc<dyn Source>) -> Router {
    let path = |rest: &str| format!("{GROUP_VERSION_PATH}{rest}");
    Router::new()
        .route("/apis", get(|| async { axum::Json(discovery::groups()) }))
        .route("/apis/metrics.k8s.io", get(|| async { axum::Json(discovery::group()) }))
        .route(GROUP_VERSION_PATH, get(|| async { axum::Json(discovery::resources()) }))
        .route("/openapi/v2", get(|| async { axum::Json(discovery::openapi_v2()) }))
        .route("/openapi/v3", get(|| async { axum::Json(discovery::openapi_v3_index()) }))
        .route(&format!("/openapi/v3{GROUP_VERSION_PATH}"), get(|| async { axum::Json(discovery::openapi_v3()) }))
        .route(&path("/nodes"), get(nodes))
        .route(&path("/nodes/{name}"), get(node))
        .route(&path("/pods"), get(pods))
        .route(&path("/namespaces/{namespace}/pods"), get(pods_of_namespace))
        .route(&path("/namespaces/{namespace}/pods/{name}"), get(pod))
        .with_state(source)
}

async fn nodes(State(source): State<Shared>, Query(query): QueryPairs, headers: HeaderMap) -> Response<Body> {
    list(&*source, Scope::Nodes, &query, &headers)
}

async fn pods(State(source): State<Shared>, Query(query): QueryPairs, headers: HeaderMap) -> Response<Body> {
    list(&*source, Scope::Pods { namespace: None }, &query, &headers)
}

async fn pods_of_namespace(
    State(source): State<Shared>,
    Path(namespace): Path<String>,
    Query(query): QueryPairs,
    headers: HeaderMap,
) -> Response<Body> {
    list(&*source, Scope::Pods { namespace: Some(namespace) }, &query, &headers)
}

async fn node(State(source): State<Shared>, Path(name): Path<String>, headers: HeaderMap) -> Response<Body> {
    one(&*source, Scope::Nodes, &name, &headers)
}

async fn pod(
    State(source): State<Shared>,
    Path((namespace, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response<Body> {
    one(&*source, Scope::Pods { namespace: Some(namespace) }, &name, &headers)
}

fn list(source: &dyn Source, scope: Scope, query: &BTreeMap<String, String>, headers: &HeaderMap) -> Response<Body> {
    if query.get("watch").is_some_and(|value| is_switched_on(value)) {
        return refused(&Status::method_not_allowed("metrics.k8s.io", scope.resource(), "watch"));
    }
    let selection = match Selection::of(query) {
        Ok(selection) => selection,
        Err(status) => return refused(&status),
    };
    let mut items = source.items(&scope, &selection);
    items.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    send(answers::list(&scope, items, wants_table(headers)))
}

fn one(source: &dyn Source, scope: Scope, name: &str, headers: &HeaderMap) -> Response<Body> {
    let found = source.items(&scope, &Selection::of_name(name)).into_iter().next();
    match found {
        Some(item) => send(answers::one(&scope, item, wants_table(headers))),
        None => refused(&answers::not_found(&scope, name)),
    }
}

fn send(value: Value) -> Response<Body> {
    axum::Json(value).into_response()
}

fn refused(status: &Status) -> Response<Body> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (code, axum::Json(status.to_value())).into_response()
}

/// True when a client such as `kubectl get` prefers a table.
fn wants_table(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|accepted| accepted.to_str().ok()).unwrap_or_default();
    accepted.split(',').next().is_some_and(|first| first.contains("as=Table"))
}
