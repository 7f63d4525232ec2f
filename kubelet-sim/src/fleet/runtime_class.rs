//! Finds the container runtime that a pod asks for.
//!
//! Corresponds to pkg/kubelet/runtimeclass and to the runtime's choice of a handler.

use crate::fleet::kubelet::SimulatedKubelet;
use pod_life::conditions;
use proto::Gvr;
use proto::kinds::api::core::v1::{Pod, PodStatus};

/// Returns why no sandbox can be made for a pod, as the message of an event; `None` when nothing stands in the way.
pub async fn error(kubelet: &SimulatedKubelet, pod: &Pod, status: &PodStatus) -> Option<String> {
    let class = pod.spec.as_ref()?.runtime_class_name.as_deref()?;
    if conditions::has_sandbox(status) || conditions::is_terminal(status) {
        return None;
    }
    let classes = kubelet.client.dynamic(&Gvr::new("node.k8s.io", "v1", "runtimeclasses"), "");
    let why = match classes.get(class).await {
        Ok(found) => {
            let handler = found["handler"].as_str().unwrap_or_default();
            if kubelet.machine.runtime_handlers.iter().any(|known| known == handler) {
                return None;
            }
            let unknown = format!("no runtime for {handler:?} is configured");
            format!("rpc error: code = Unknown desc = failed to get sandbox runtime: {unknown}")
        }
        Err(error) if error.is_not_found() => format!("RuntimeClass.node.k8s.io {class:?} not found"),
        Err(error) => error.to_string(),
    };
    Some(format!("Failed to create pod sandbox: {why}"))
}
