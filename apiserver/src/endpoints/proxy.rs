//! `proxy` of nodes, pods and services: forwards HTTP requests to the agent of a node, which answers for its pods.
//!
//! Corresponds to ResourceLocation in pkg/registry/core/{node,pod,service} and k8s.io/apimachinery/pkg/util/proxy. A pod's
//! address is simulated, so requests to a pod go to its node's agent: `/podProxy/{namespace}/{pod}/{port}/…`.

use super::{Call, connect, container_choice, upgrade};
use crate::node_agents::Agent;
use axum::body::Body;
use cacher::lookup::{Lookup, ObjectKey};
use http::{HeaderMap, HeaderName, Response, header};
use proto::Status;
use proto::resources::Target;
use serde_json::Value;
use std::sync::Arc;
use strategy::object_meta;

const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Headers that are not forwarded: the credentials and those of the connection.
const NOT_FORWARDED: [HeaderName; 7] = [
    header::AUTHORIZATION,
    header::HOST,
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::TRANSFER_ENCODING,
    header::CONTENT_LENGTH,
];
/// Headers of [`NOT_FORWARDED`] that are forwarded to upgrade the connection.
const UPGRADE_HEADERS: [HeaderName; 2] = [header::CONNECTION, header::UPGRADE];

/// The name in the URL of a proxied object: `name`, `name:port` or `scheme:name:port`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Address<'a> {
    name: &'a str,
    port: &'a str,
}

impl<'a> Address<'a> {
    fn read(text: &'a str, kind: &str) -> Result<Self, Status> {
        let parts: Vec<&str> = text.split(':').collect();
        match parts.as_slice() {
            [name] if !name.is_empty() => Ok(Self { name, port: "" }),
            [name, port] if !name.is_empty() => Ok(Self { name, port }),
            ["" | "http" | "https", name, port] if !name.is_empty() => Ok(Self { name, port }),
            _ => Err(Status::bad_request(format!("invalid {kind} request {text:?}"))),
        }
    }
}

pub async fn answer(call: &Call<'_>, target: &Target, body: Body) -> Result<Response<Body>, Status> {
    let rest = path_after_proxy(call);
    connect::admitted_options(call, target, rest.split('?').next().unwrap_or_default()).await?;
    let (agent, prefix) = match call.info.resource.as_str() {
        "nodes" => (node(call, target).await?, String::new()),
        "pods" => pod(call, target).await?,
        _ => service(call, target).await?,
    };
    let path = format!("{prefix}{rest}");
    let is_upgrade = upgrade::is_requested(call.headers());
    let mut headers = HeaderMap::new();
    let is_upgrade_header = |name: &HeaderName| is_upgrade && UPGRADE_HEADERS.contains(name);
    let is_forwarded = |name: &HeaderName| {
        is_upgrade_header(name) || !NOT_FORWARDED.contains(name) && !name.as_str().starts_with("impersonate-")
    };
    for (name, value) in call.headers().iter().filter(|(name, _)| is_forwarded(name)) {
        headers.append(name, value.clone());
    }
    let permit = call.server.upstreams.node_agents.permit()?;
    if is_upgrade {
        return upgrade::answer(call, &agent, &path, headers, permit).await;
    }
    let sent = call.server.upstreams.node_agents.send(&agent, call.parts.method.clone(), &path, headers, body).await;
    let found = sent.map_err(|error| Status::unavailable(format!("error trying to reach service: {error}")))?;
    Ok(found.map(|body| call.server.upstreams.node_agents.streamed(body, permit)))
}

/// Returns the path and query after the subresource, exactly as the client has written them.
fn path_after_proxy(call: &Call<'_>) -> String {
    let path = call.parts.uri.path();
    let before = if call.info.namespace.is_empty() { 5 } else { 7 };
    let rest: Vec<&str> = path.trim_start_matches('/').splitn(before + 1, '/').skip(before).collect();
    let query = call.parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("/{}{query}", rest.concat())
}

async fn node(call: &Call<'_>, target: &Target) -> Result<Agent, Status> {
    let Address { name, .. } = Address::read(&call.info.name, "node")?;
    Agent::of(&call.server.registry.read_object(target, "", name, "").await?.value())
}

async fn pod(call: &Call<'_>, target: &Target) -> Result<(Agent, String), Status> {
    let Address { name, port } = Address::read(&call.info.name, "pod")?;
    let pod = call.server.registry.read_object(target, &call.info.namespace, name, "").await?.value();
    let port = if port.is_empty() { first_port(&pod).unwrap_or_else(|| "80".to_owned()) } else { port.to_owned() };
    to_pod(call, &pod, &port).await
}

fn first_port(pod: &Value) -> Option<String> {
    let containers = pod["spec"]["containers"].as_array()?;
    containers.iter().find_map(|container| Some(container["ports"].get(0)?["containerPort"].as_i64()?.to_string()))
}

/// Returns the agent of the pod's node and the path under which it answers for this port of the pod.
async fn to_pod(call: &Call<'_>, pod: &Value, port: &str) -> Result<(Agent, String), Status> {
    let not_allowed = || Status::bad_request("address not allowed");
    if pod["status"]["podIP"].as_str().is_none_or(str::is_empty) || port.parse::<u16>().is_err() {
        return Err(not_allowed());
    }
    let agent = container_choice::agent(call, pod).await?.ok_or_else(not_allowed)?;
    let (namespace, name) = (object_meta::text(pod, "namespace"), object_meta::text(pod, "name"));
    Ok((agent, format!("/podProxy/{namespace}/{name}/{port}")))
}

/// Chooses a ready pod of the service at random.
async fn service(call: &Call<'_>, target: &Target) -> Result<(Agent, String), Status> {
    let address = Address::read(&call.info.name, "service")?;
    let (name, registry) = (address.name, &call.server.registry);
    let service = registry.read_object(target, &call.info.namespace, name, "").await?.value();
    let port = port_of(&service, address.port).ok_or_else(|| {
        let wanted = address.port;
        Status::unavailable(format!("no service port {wanted} found for service {name:?}"))
    })?;
    let slices: Vec<Arc<Value>> = registry
        .list("discovery.k8s.io", "endpointslices", &call.info.namespace)?
        .iter()
        .map(|slice| slice.value())
        .filter(|slice| slice["metadata"]["labels"][SERVICE_NAME] == name)
        .collect();
    if slices.is_empty() {
        return Err(Status::not_found("", "services", name));
    }
    let found: Vec<(&str, i64)> = slices.iter().flat_map(|slice| ready_pods(slice, port)).collect();
    if found.is_empty() {
        return Err(Status::unavailable(format!("no endpoints available for service {name:?}")));
    }
    let (pod, number) = found[call.server.random.below(found.len())];
    let key = ObjectKey { group: "", resource: "pods", namespace: &call.info.namespace, name: pod };
    let pod = registry.get(key)?.ok_or_else(|| Status::not_found("", "pods", pod))?;
    to_pod(call, &pod.value(), &number.to_string()).await
}

/// Returns the name of the service port with this name or number, or of the only port if `wanted` is empty.
fn port_of<'a>(service: &'a Value, wanted: &str) -> Option<&'a str> {
    let ports = service["spec"]["ports"].as_array()?;
    let name = |port: &'a Value| port["name"].as_str().unwrap_or_default();
    if wanted.is_empty() {
        return if let [only] = ports.as_slice() { Some(name(only)) } else { None };
    }
    let is_wanted =
        |port: &&Value| port["name"] == wanted || port["port"].as_i64().is_some_and(|n| n.to_string() == wanted);
    ports.iter().find(is_wanted).map(name)
}

/// Returns the ready pods of an endpoint slice and the number of their port with this name.
fn ready_pods<'a>(slice: &'a Value, port: &str) -> Vec<(&'a str, i64)> {
    let mut ports = slice["ports"].as_array().into_iter().flatten();
    let number = ports.find(|known| known["name"].as_str().unwrap_or_default() == port);
    let Some(number) = number.and_then(|port| port["port"].as_i64()) else { return Vec::new() };
    let ready = slice["endpoints"].as_array().into_iter().flatten();
    ready
        .filter(|endpoint| endpoint["conditions"]["ready"] != false && endpoint["targetRef"]["kind"] == "Pod")
        .filter_map(|endpoint| Some((endpoint["targetRef"]["name"].as_str()?, number)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_address_has_up_to_three_parts() {
        for (text, expected) in [
            ("s", Ok(("s", ""))),
            ("s:http", Ok(("s", "http"))),
            ("https:s:443", Ok(("s", "443"))),
            ("http:s:", Ok(("s", ""))),
            ("ftp:s:80", Err(r#"invalid service request "ftp:s:80""#)),
            (":80", Err(r#"invalid service request ":80""#)),
        ] {
            let read = Address::read(text, "service").map(|address| (address.name, address.port));
            assert_eq!(read.map_err(|status| status.message), expected.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn a_service_leads_to_ready_pods() {
        let service = json!({"spec": {"ports": [{"name": "web", "port": 80}, {"name": "other", "port": 81}]}});
        assert_eq!(
            ["web", "81", "82", ""].map(|port| port_of(&service, port)),
            [Some("web"), Some("other"), None, None]
        );
        let endpoint = |name: &str, ready: bool| json!({"targetRef": {"kind": "Pod", "name": name}, "conditions": {"ready": ready}});
        let slice = json!({
            "ports": [{"name": "web", "port": 8080}], "endpoints": [endpoint("a", true), endpoint("b", false)],
        });
        assert_eq!(ready_pods(&slice, "web"), [("a", 8080)]);
        assert_eq!(ready_pods(&slice, "other"), []);
    }
}
