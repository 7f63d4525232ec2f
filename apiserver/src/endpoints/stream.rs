//! exec, attach and portforward: connects the client to the agent of the pod's node.
//!
//! Corresponds to pkg/registry/core/pod/rest/subresources.go.

use super::{Call, connect, container_choice, upgrade};
use access::authz::Attributes;
use axum::body::Body;
use http::{HeaderMap, HeaderName, Method, Response, header};
use proto::Status;
use proto::resources::Target;
use request::ids::trace_headers;
use strategy::object_meta;

/// Headers that are forwarded to the agent, besides those of WebSocket. The agent does not learn the user.
const FORWARDED: [HeaderName; 3] = [header::CONNECTION, header::UPGRADE, header::USER_AGENT];
/// The header with which SPDY clients negotiate the protocol of the streams.
const STREAM_PROTOCOL: &str = "x-stream-protocol-version";

pub async fn answer(call: &Call<'_>, target: &Target) -> Result<Response<Body>, Status> {
    if call.parts.method == Method::GET {
        // A WebSocket begins with GET, but it can run commands: it requires `create` as a POST does.
        let may_create = Attributes { verb: "create", ..Attributes::of_request(call.user, call.info, "") };
        call.server.access.authorization.authorize(&may_create).await?;
    }
    let options = connect::admitted_options(call, target, "").await?;
    let name = call.info.name.as_str();
    let pod = call.server.registry.read_object(target, call.namespace(target), name, "").await?.value();
    let namespace = object_meta::text(&pod, "namespace");
    let path = match call.info.subresource.as_str() {
        "portforward" => format!("/portForward/{namespace}/{name}"),
        command => {
            let wanted = options["container"].as_str().unwrap_or_default();
            format!("/{command}/{namespace}/{name}/{}", container_choice::choose(&pod, wanted)?)
        }
    };
    let no_host = || Status::bad_request(format!("pod {name} does not have a host assigned"));
    let agent = container_choice::agent(call, &pod).await?.ok_or_else(no_host)?;
    if !upgrade::is_requested(call.headers()) {
        return Err(Status::bad_request("Upgrade request required"));
    }
    let path = format!("{path}?{}", connect::kubelet_query(&options));
    let permit = call.server.upstreams.node_agents.permit()?;
    upgrade::answer(call, &agent, &path, forwarded_headers(call.headers()), permit).await
}

fn forwarded_headers(headers: &HeaderMap) -> HeaderMap {
    let is_forwarded = |name: &HeaderName| FORWARDED.contains(name) || name.as_str().starts_with("sec-websocket-");
    let names = headers.iter().filter(|(name, _)| is_forwarded(name) || name.as_str() == STREAM_PROTOCOL);
    let mut forwarded = trace_headers(headers);
    for (name, value) in names {
        forwarded.append(name, value.clone());
    }
    forwarded
}

#[cfg(test)]
mod tests {
    use crate::testing::Api;
    use component_base::dial::AGENT_ENDPOINT;
    use serde_json::json;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_admitted_before_the_pod_is_looked_at() {
        let api = Api::start().await;
        let account = json!({"metadata": {"name": "default"}});
        api.create("/api/v1/namespaces/default/serviceaccounts", account).await;
        let annotations = json!({AGENT_ENDPOINT: "agent:1"});
        api.create("/api/v1/nodes", json!({"metadata": {"name": "n", "annotations": annotations}})).await;
        for (name, node) in [("here", "n"), ("waits", "")] {
            let spec = json!({
                "nodeName": node, "automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i"}],
            });
            api.create("/api/v1/namespaces/default/pods", json!({"metadata": {"name": name}, "spec": spec})).await;
        }
        for (request_path, code, expected) in [
            ("here/exec?command=ls", 400, "Upgrade request required"),
            ("here/attach", 400, "Upgrade request required"),
            ("here/portforward?ports=80", 400, "Upgrade request required"),
            ("here/portforward?ports=web", 400, "strconv.ParseInt: parsing \"web\": invalid syntax"),
            ("waits/portforward", 400, "pod waits does not have a host assigned"),
            ("none/portforward", 404, "pods \"none\" not found"),
        ] {
            let answer = api.get(&format!("/api/v1/namespaces/default/pods/{request_path}")).await;
            assert_eq!((answer.code, answer.message()), (code, expected), "{request_path}");
        }
        let metrics = api.get("/metrics").await.text;
        let admitted = |line: &&str| line.contains("step_admission") && line.contains(r#"operation="CONNECT""#);
        assert!(metrics.lines().any(|line| admitted(&line)), "{metrics}");
    }
}
