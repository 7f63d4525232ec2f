//! `Facts`: what a template may ask about beyond the object itself.

use jiff::Timestamp;
use proto::kinds::api::core::v1::NodeCondition;

/// Answers of the functions `Now`, `StartTime`, `Version`, `NodeName`, `NodeIP`, `NodePort`, `PodIP` and their kin.
#[derive(Clone, Debug)]
pub struct Facts {
    pub now: Timestamp,
    /// The time when the process started.
    pub started: Timestamp,
    pub version: String,
    /// The node that the object is, or is bound to.
    pub node_name: String,
    pub node_ips: Vec<String>,
    /// The port of the node's agent; `None` when nothing is served.
    pub node_port: Option<u16>,
    /// The pod's addresses; none for a node.
    pub pod_ips: Vec<String>,
}

/// Returns the conditions of a healthy node, in the order of KWOK's `NodeConditions`.
pub fn node_conditions() -> Vec<NodeCondition> {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| NodeCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        ..NodeCondition::default()
    };
    vec![
        condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        condition("NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"),
    ]
}
