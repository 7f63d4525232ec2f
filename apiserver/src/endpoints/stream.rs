//! exec, attach and portforward: an upgraded connection, passed through byte for byte to the node's agent.
//!
//! Corresponds to pkg/registry/core/pod/rest/subresources.go and k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go.

use super::{Call, container_choice};
use crate::authz::Attributes;
use crate::node_agents::Place;
use crate::registry::object_meta;
use axum::body::Body;
use http::{HeaderMap, HeaderName, Method, Response, StatusCode, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use proto::Status;
use proto::resources::Target;
use tokio_util::sync::CancellationToken;

/// What goes on to the agent besides the WebSocket headers; who asks is no business of the agent's.
const PASSED_ON: [HeaderName; 3] = [header::CONNECTION, header::UPGRADE, header::USER_AGENT];

pub async fn answer(call: &Call<'_>, target: &Target) -> Result<Response<Body>, Status> {
    let may_create = Attributes { verb: "create", ..Attributes::of_request(call.user, call.info, "") };
    if call.parts.method == Method::GET {
        // A WebSocket begins with GET, and runs commands all the same.
        call.server.authorization.authorize(&may_create)?;
    }
    let name = call.info.name.as_str();
    let pod = call.server.registry.read_object(target, call.namespace(target), name, "").await?.value();
    let subresource = call.info.subresource.as_str();
    let container = match subresource {
        "portforward" => "",
        _ => container_choice::chosen(&pod, call.info.query.text("container"))?,
    };
    let no_host = || Status::bad_request(format!("pod {name} does not have a host assigned"));
    let agent = container_choice::agent(call, &pod).await?.ok_or_else(no_host)?;
    if !call.headers().contains_key(header::UPGRADE) {
        return Err(Status::bad_request("Upgrade request required"));
    }
    let upgrade = call.parts.extensions.get::<OnUpgrade>().cloned();
    let upgrade = upgrade.ok_or_else(|| Status::bad_request("this connection cannot be upgraded: use HTTP/1.1"))?;
    let place = call.server.node_agents.place()?;
    let namespace = object_meta::text(&pod, "namespace");
    let path = match subresource {
        "portforward" => format!("/portForward/{namespace}/{name}{}", ports(call)),
        subresource => format!("/{subresource}/{namespace}/{name}/{container}{}", parameters(call)),
    };
    let headers = passed_on(call.headers());
    let sent = call.server.node_agents.send(&agent, call.parts.method.clone(), &path, headers, Body::empty()).await;
    let mut found = sent.map_err(|error| Status::failure(500, "", format!("error dialing backend: {error}")))?;
    if found.status() == StatusCode::SWITCHING_PROTOCOLS {
        let of_agent = hyper::upgrade::on(&mut found);
        let end = call.server.env.shutdown().clone();
        call.server.env.spawn(async move { tunnel(upgrade, of_agent, place, end).await });
    }
    let (parts, body) = found.into_parts();
    let body = if parts.status == StatusCode::SWITCHING_PROTOCOLS { Body::empty() } else { body };
    Ok(Response::from_parts(parts, body))
}

fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let is_passed = |name: &HeaderName| PASSED_ON.contains(name) || name.as_str().starts_with("sec-websocket-");
    let names = headers.iter().filter(|(name, _)| is_passed(name) || name.as_str() == "x-stream-protocol-version");
    let mut passed = HeaderMap::new();
    for (name, value) in names {
        passed.append(name, value.clone());
    }
    passed
}

/// In the words of the kubelet; empty where nothing is said.
fn parameters(call: &Call<'_>) -> String {
    let query = &call.info.query;
    let mut text = form_urlencoded::Serializer::new(String::new());
    for (theirs, ours) in [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")] {
        if query.switch(theirs) {
            text.append_pair(ours, "1");
        }
    }
    for word in query.all("command") {
        text.append_pair("command", word);
    }
    format!("?{}", text.finish())
}

fn ports(call: &Call<'_>) -> String {
    let mut text = form_urlencoded::Serializer::new(String::new());
    for port in call.info.query.all("ports") {
        text.append_pair("port", port);
    }
    format!("?{}", text.finish())
}

/// Until either side has nothing more to say, or this server ends.
async fn tunnel(client: OnUpgrade, agent: OnUpgrade, place: Place, end: CancellationToken) {
    let both = async {
        let (client, agent): (Upgraded, Upgraded) = futures::try_join!(client, agent).ok()?;
        tokio::io::copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(agent)).await.ok()
    };
    tokio::select! {
        biased;
        () = end.cancelled() => {}
        _ = both => {}
    }
    drop(place);
}
