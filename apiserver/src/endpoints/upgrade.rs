//! Upgraded connections: copies the bytes of a WebSocket or SPDY connection between a client and a node's agent.
//!
//! Corresponds to k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go.

use super::Call;
use crate::node_agents::{Agent, StreamPermit};
use axum::body::Body;
use http::{HeaderMap, Response, StatusCode, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use proto::Status;
use tokio_util::sync::CancellationToken;

/// Returns whether the client asks to upgrade its connection to another protocol.
pub fn is_requested(headers: &HeaderMap) -> bool {
    let mut connection = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    connection.any(|value| value.to_ascii_lowercase().contains("upgrade")) && headers.contains_key(header::UPGRADE)
}

/// Sends the upgrade request to the agent, and connects both connections if the agent accepts. If it refuses, its response
/// goes to the client.
pub async fn answer(
    call: &Call<'_>,
    agent: &Agent,
    path: &str,
    headers: HeaderMap,
    permit: StreamPermit,
) -> Result<Response<Body>, Status> {
    let upgrade = call.parts.extensions.get::<OnUpgrade>().cloned();
    let upgrade = upgrade.ok_or_else(|| Status::bad_request("this connection cannot be upgraded: use HTTP/1.1"))?;
    let agents = &call.server.upstreams.node_agents;
    let sent = agents.send(agent, call.parts.method.clone(), path, headers, Body::empty()).await;
    let mut found = sent.map_err(|error| Status::failure(500, "", format!("error dialing backend: {error}")))?;
    if found.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(found.map(|body| agents.streamed(body, permit)));
    }
    let agent_upgrade = hyper::upgrade::on(&mut found);
    let end = call.server.env.shutdown().clone();
    call.server.env.spawn(async move { tunnel(upgrade, agent_upgrade, permit, end).await });
    Ok(found.map(|_| Body::empty()))
}

/// Copies bytes in both directions until both sides have ended or this server shuts down, and drops `permit` then.
pub async fn tunnel<Permit: Send>(client: OnUpgrade, agent: OnUpgrade, permit: Permit, end: CancellationToken) {
    let both = async {
        let (client, agent): (Upgraded, Upgraded) = futures::try_join!(client, agent).ok()?;
        tokio::io::copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(agent)).await.ok()
    };
    tokio::select! {
        biased;
        () = end.cancelled() => {}
        _ = both => {}
    }
    drop(permit);
}
