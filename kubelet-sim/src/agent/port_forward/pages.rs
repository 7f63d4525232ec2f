//! The HTTP server of a simulated container: on each port that it declares, a page that names the pod.
//!
//! There is no Kubernetes counterpart: a real container listens on the ports that its image does.

use crate::agent::plain_text::text;
use crate::fleet::Fleet;
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::IntoResponse;
use http::{Request, Response, StatusCode};
use proto::kinds::api::core::v1::{Container, Pod, PodStatus};
use proto::{Kind, Status};

/// Returns the running container that declares this TCP port.
pub fn listener(pod: &Pod, status: &PodStatus, port: u16) -> Option<Container> {
    let declares = |container: &&Container| {
        container.ports.iter().flatten().any(|declared| {
            declared.container_port == i32::from(port) && declared.protocol.as_deref().is_none_or(|is| is == "TCP")
        })
    };
    let container = pod.spec.as_ref()?.containers.iter().find(declares)?;
    let statuses = status.container_statuses.as_deref().unwrap_or_default();
    let runs = |known: &&proto::kinds::api::core::v1::ContainerStatus| {
        known.name == container.name && known.state.as_ref().is_some_and(|state| state.running.is_some())
    };
    statuses.iter().find(runs).map(|_| container.clone())
}

/// Returns the text of a page.
pub fn page(pod: &Pod, container: &Container, port: u16, request_line: &str) -> String {
    let (namespace, name) = (pod.namespace(), pod.name());
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    let image = container.image.as_deref().unwrap_or_default();
    format!(
        "Hello from pod {namespace}/{name} on {node}: container {} of image {image}, port {port}.\n{request_line}\n",
        container.name
    )
}

/// A port of a pod, as a path names it.
#[derive(Clone, Debug)]
pub struct PodPort {
    pub node: String,
    pub namespace: String,
    pub pod: String,
    pub port: u16,
}

impl PodPort {
    pub fn is_open(&self, fleet: &Fleet) -> bool {
        let found = fleet.find(&self.node, &self.namespace, &self.pod);
        found.is_some_and(|(pod, status)| listener(&pod, &status, self.port).is_some())
    }

    /// Returns the page; or, when nothing listens, the error of a proxy that cannot connect.
    fn page(&self, fleet: &Fleet, request_line: &str) -> Result<String, Status> {
        let found = fleet.find(&self.node, &self.namespace, &self.pod);
        let (pod, status) = found.ok_or_else(|| Status::not_found("", "pods", &self.pod))?;
        let container = listener(&pod, &status, self.port).ok_or_else(|| {
            let address = status.pod_ip.as_deref().unwrap_or_default();
            let why = format!("dial tcp {address}:{}: connect: connection refused", self.port);
            Status::unavailable(format!("error trying to reach service: {why}"))
        })?;
        Ok(page(&pod, &container, self.port, request_line))
    }
}

/// Answers a request to the server behind a port. A client that upgrades to a WebSocket gets the page as its first
/// message, and then an echo of its own messages.
pub async fn answer(fleet: &Fleet, port: &PodPort, request: Request<Body>) -> Response<Body> {
    let (mut parts, _) = request.into_parts();
    let line = format!("{} {}", parts.method, parts.uri);
    match port.page(fleet, &line) {
        Ok(page) => match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
            Ok(upgrade) => upgrade.on_upgrade(|socket| echo(socket, page)).into_response(),
            Err(_) => text((StatusCode::OK, page)),
        },
        Err(status) => {
            let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            (code, axum::Json(status.to_value())).into_response()
        }
    }
}

async fn echo(mut socket: WebSocket, greeting: String) {
    let mut next = Message::Text(greeting.into());
    while socket.send(next).await.is_ok() {
        next = loop {
            match socket.recv().await {
                Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => break message,
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                _ => return,
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_declared_ports_of_running_containers_answer() {
        let pod = |state: &str| {
            let container = json!({"name": "web", "image": "nginx", "ports": [
                {"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"},
            ]});
            Pod::decode_value(json!({
                "metadata": {"name": "p", "namespace": "shop"},
                "spec": {"nodeName": "node-1", "containers": [container]},
                "status": {"containerStatuses": [{
                    "name": "web", "image": "nginx", "imageID": "", "ready": true, "restartCount": 0, "state": {state: {}},
                }]},
            }))
            .unwrap()
        };
        let listens = |state: &str, port| {
            let pod = pod(state);
            listener(&pod, pod.status.as_ref().unwrap(), port).map(|container| container.name)
        };
        assert_eq!(listens("running", 80).as_deref(), Some("web"));
        assert_eq!((listens("running", 53), listens("running", 81), listens("waiting", 80)), (None, None, None));
        let pod = pod("running");
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let expected = "Hello from pod shop/p on node-1: container web of image nginx, port 80.\nGET /a?b\n";
        assert_eq!(page(&pod, container, 80, "GET /a?b"), expected);
    }
}
