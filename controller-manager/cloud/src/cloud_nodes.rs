//! What the controllers of a cloud read from a Node: its machine, its taints, its conditions.
//!
//! Corresponds to k8s.io/cloud-provider/node/helpers and k8s.io/cloud-provider/api.

use controller_base::descriptor::Setup;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, NodeCondition, Taint};
use simulated_cloud::cloud_client::CloudClient;
use simulated_cloud::model::machine_of_provider_id;

/// Taint of a node that no cloud has identified yet.
pub const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Taint of a node whose machine is off.
pub const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

/// Returns a client of the cloud that the manager is connected to.
pub fn cloud_of(setup: &Setup<'_>) -> CloudClient {
    let access = setup.settings.cloud.as_ref();
    CloudClient::new(&access.expect("the manager connects to its cloud before it starts controllers").client)
}

pub fn provider_id(node: &Node) -> &str {
    node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default()
}

/// Returns the name of the node's machine: that of its provider ID, or else the node's own. `None` if the ID is another
/// provider's.
pub fn machine_name(node: &Node) -> Option<&str> {
    match provider_id(node) {
        "" => Some(node.name()),
        id => machine_of_provider_id(id),
    }
}

pub fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

pub fn has_taint(node: &Node, key: &str) -> bool {
    taints(node).iter().any(|taint| taint.key == key)
}

/// Returns the node without the taints of this key.
pub fn without_taint(node: &Node, key: &str) -> Node {
    let mut node = node.clone();
    let left: Vec<Taint> = taints(&node).iter().filter(|taint| taint.key != key).cloned().collect();
    node.spec.get_or_insert_default().taints = (!left.is_empty()).then_some(left);
    node
}

pub fn condition<'a>(node: &'a Node, type_: &str) -> Option<&'a NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_)
}

pub fn is_ready(node: &Node) -> bool {
    condition(node, "Ready").is_some_and(|ready| ready.status == "True")
}
