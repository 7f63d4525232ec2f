//! exec, attach and portforward: an upgraded connection to the agent of the pod's node.
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

/// What goes on to the agent besides the WebSocket headers; who asks is no business of the agent's.
const PASSED_ON: [HeaderName; 3] = [header::CONNECTION, header::UPGRADE, header::USER_AGENT];
/// SPDY's own choice of a protocol.
const STREAM_PROTOCOL: &str = "x-stream-protocol-version";

pub async fn answer(call: &Call<'_>, target: &Target) -> Result<Response<Body>, Status> {
    if call.parts.method == Method::GET {
        // A WebSocket begins with GET, and runs commands all the same.
        let may_create = Attributes { verb: "create", ..Attributes::of_request(call.user, call.info, "") };
        call.server.access.authorization.authorize(&may_create).await?;
    }
    let options = connect::admitted(call, target, "").await?;
    let name = call.info.name.as_str();
    let pod = call.server.registry.read_object(target, call.namespace(target), name, "").await?.value();
    let namespace = object_meta::text(&pod, "namespace");
    let place = match call.info.subresource.as_str() {
        "portforward" => format!("/portForward/{namespace}/{name}"),
        command => {
            let wanted = options["container"].as_str().unwrap_or_default();
            format!("/{command}/{namespace}/{name}/{}", container_choice::chosen(&pod, wanted)?)
        }
    };
    let no_host = || Status::bad_request(format!("pod {name} does not have a host assigned"));
    let agent = container_choice::agent(call, &pod).await?.ok_or_else(no_host)?;
    if !upgrade::is_wanted(call.headers()) {
        return Err(Status::bad_request("Upgrade request required"));
    }
    let path = format!("{place}?{}", connect::kubelet_query(&options));
    let held = call.server.upstreams.node_agents.permit()?;
    upgrade::answer(call, &agent, &path, passed_on(call.headers()), held).await
}

fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let is_passed = |name: &HeaderName| PASSED_ON.contains(name) || name.as_str().starts_with("sec-websocket-");
    let names = headers.iter().filter(|(name, _)| is_passed(name) || name.as_str() == STREAM_PROTOCOL);
    let mut passed = trace_headers(headers);
    for (name, value) in names {
        passed.append(name, value.clone());
    }
    passed
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
        for (asked, code, expected) in [
            ("here/exec?command=ls", 400, "Upgrade request required"),
            ("here/attach", 400, "Upgrade request required"),
            ("here/portforward?ports=80", 400, "Upgrade request required"),
            ("here/portforward?ports=web", 400, "strconv.ParseInt: parsing \"web\": invalid syntax"),
            ("waits/portforward", 400, "pod waits does not have a host assigned"),
            ("none/portforward", 404, "pods \"none\" not found"),
        ] {
            let answer = api.get(&format!("/api/v1/namespaces/default/pods/{asked}")).await;
            assert_eq!((answer.code, answer.message()), (code, expected), "{asked}");
        }
        let metrics = api.get("/metrics").await.text;
        let admitted = |line: &&str| line.contains("step_admission") && line.contains(r#"operation="CONNECT""#);
        assert!(metrics.lines().any(|line| admitted(&line)), "{metrics}");
    }
}
