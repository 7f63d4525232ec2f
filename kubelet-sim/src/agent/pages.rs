//! The HTTP server of a simulated container: on each port that it declares, a page that says who answers.
//!
//! There is no Kubernetes counterpart: a real pod listens where its image does.

use crate::fleet::Fleet;
use proto::kinds::api::core::v1::{Container, Pod, PodStatus};
use proto::{Kind, Status};

/// The running container that declares this TCP port.
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

/// What is on every page.
pub fn page(pod: &Pod, container: &Container, port: u16, request_line: &str) -> String {
    let (namespace, name) = (pod.namespace(), pod.name());
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    let image = container.image.as_deref().unwrap_or_default();
    format!(
        "Hello from pod {namespace}/{name} on {node}: container {} of image {image}, port {port}.\n{request_line}\n",
        container.name
    )
}

/// The page, or how a proxy says that nobody listens.
pub fn answer(
    fleet: &Fleet,
    node: &str,
    (namespace, name, port): (&str, &str, u16),
    request_line: &str,
) -> Result<String, Status> {
    let found = fleet.find(node, namespace, name);
    let (pod, status) = found.ok_or_else(|| Status::not_found("", "pods", name))?;
    let container = listener(&pod, &status, port).ok_or_else(|| {
        let address = status.pod_ip.as_deref().unwrap_or_default();
        let why = format!("dial tcp {address}:{port}: connect: connection refused");
        Status::unavailable(format!("error trying to reach service: {why}"))
    })?;
    Ok(page(&pod, &container, port, request_line))
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
