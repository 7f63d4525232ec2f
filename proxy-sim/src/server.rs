//! The pages of the proxies' port: health, and the rules of each node.

use crate::proxy::Proxies;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use component_base::health_server::HealthServer;

/// Returns the pages: `/rules` lists the nodes, `/rules/<node>` shows the rules of one in `iptables-save` syntax.
pub fn pages(proxies: &Proxies) -> HealthServer {
    let routes =
        Router::new().route("/rules", get(nodes)).route("/rules/{node}", get(rules)).with_state(proxies.clone());
    let synced = proxies.clone();
    HealthServer::new()
        .check("informer-sync", move || if synced.has_synced() { Ok(()) } else { Err("not synced yet".into()) })
        .pages(routes)
}

async fn nodes(State(proxies): State<Proxies>) -> String {
    proxies.nodes().into_iter().map(|name| name + "\n").collect()
}

async fn rules(State(proxies): State<Proxies>, Path(node): Path<String>) -> Response {
    match proxies.rules(&node) {
        Some(rules) => rules.to_string().into_response(),
        None => (StatusCode::NOT_FOUND, format!("there is no node {node:?}\n")).into_response(),
    }
}
