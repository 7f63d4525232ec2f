//! `metrics.k8s.io/v1beta1`: the usage of nodes and pods, for `kubectl top` and autoscalers.
//!
//! Corresponds to sigs.k8s.io/metrics-server. An APIService makes the API server pass requests for this group on to
//! kubelet-sim, together with the user's name.
//!
//! Deviation: there is one process with this group, and it knows its own nodes only. Several processes that each simulate
//! a part of the nodes need a metrics-server of their own.

pub mod discovery;
pub mod resources;
pub mod answers;
pub mod access;

use crate::fleet::Fleet;
use answers::{Scope, Selection};
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

/// The group's path below that of the server.
pub const GROUP_VERSION_PATH: &str = "/apis/metrics.k8s.io/v1beta1";

type QueryPairs = Query<BTreeMap<String, String>>;

pub fn routes(fleet: Arc<Fleet>) -> Router {
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
        .with_state(fleet)
}

async fn nodes(State(fleet): State<Arc<Fleet>>, Query(query): QueryPairs, headers: HeaderMap) -> Response<Body> {
    list(&fleet, Scope::Nodes, &query, &headers)
}

async fn pods(State(fleet): State<Arc<Fleet>>, Query(query): QueryPairs, headers: HeaderMap) -> Response<Body> {
    list(&fleet, Scope::Pods { namespace: None }, &query, &headers)
}

async fn pods_of_namespace(
    State(fleet): State<Arc<Fleet>>,
    Path(namespace): Path<String>,
    Query(query): QueryPairs,
    headers: HeaderMap,
) -> Response<Body> {
    list(&fleet, Scope::Pods { namespace: Some(namespace) }, &query, &headers)
}

async fn node(State(fleet): State<Arc<Fleet>>, Path(name): Path<String>, headers: HeaderMap) -> Response<Body> {
    one(&fleet, Scope::Nodes, &name, &headers)
}

async fn pod(
    State(fleet): State<Arc<Fleet>>,
    Path((namespace, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response<Body> {
    one(&fleet, Scope::Pods { namespace: Some(namespace) }, &name, &headers)
}

fn list(fleet: &Fleet, scope: Scope, query: &BTreeMap<String, String>, headers: &HeaderMap) -> Response<Body> {
    if query.get("watch").is_some_and(|value| is_switched_on(value)) {
        return refused(&Status::method_not_allowed("metrics.k8s.io", scope.resource(), "watch"));
    }
    let selection = match Selection::of(query) {
        Ok(selection) => selection,
        Err(status) => return refused(&status),
    };
    let items = resources::items(fleet, &scope, &selection);
    send(answers::list(&scope, items, wants_table(headers)))
}

fn one(fleet: &Fleet, scope: Scope, name: &str, headers: &HeaderMap) -> Response<Body> {
    let found = resources::items(fleet, &scope, &Selection::of_name(name)).into_iter().next();
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

/// Returns whether a query asks for a watch.
fn is_watch(query: &str) -> bool {
    query.split('&').filter_map(|pair| pair.strip_prefix("watch")).any(|value| match value.strip_prefix('=') {
        Some(value) => is_switched_on(value),
        None => value.is_empty(),
    })
}

/// Returns whether the value of a switch in a query turns it on.
fn is_switched_on(value: &str) -> bool {
    !(value == "0" || value.eq_ignore_ascii_case("false"))
}

/// True when a client such as `kubectl get` prefers a table.
fn wants_table(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|accepted| accepted.to_str().ok()).unwrap_or_default();
    accepted.split(',').next().is_some_and(|first| first.contains("as=Table"))
}

#[cfg(test)]
mod tests;
