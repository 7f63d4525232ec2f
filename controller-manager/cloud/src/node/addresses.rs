//! The addresses of a node, as its machine has them.
//!
//! Corresponds to updateNodeAddress in k8s.io/cloud-provider/controllers/node/node_controller.go and to
//! k8s.io/cloud-provider/node/helpers/address.go.

use proto::Kind;
use proto::kinds::api::core::v1::{Node, NodeAddress};
use simulated_cloud::model::Machine;

/// Annotation with the addresses that a kubelet was told to have.
const PROVIDED: &str = "alpha.kubernetes.io/provided-node-ip";
const HOSTNAME: &str = "Hostname";

pub fn present(node: &Node) -> &[NodeAddress] {
    node.status.as_ref().and_then(|status| status.addresses.as_deref()).unwrap_or_default()
}

/// Returns the addresses that the node should have: the machine's, and the host name that the kubelet gave. An address that
/// the kubelet was told to have comes first. Fails if the machine does not have it.
pub fn wanted(node: &Node, machine: &Machine) -> Result<Vec<NodeAddress>, String> {
    let address = |type_: &str, address: String| NodeAddress { type_: type_.to_owned(), address };
    let mut wanted = vec![address("InternalIP", machine.internal_address.to_string())];
    wanted.extend(machine.external_address.map(|external| address("ExternalIP", external.to_string())));
    let annotations = node.metadata().annotations.as_ref();
    for ip in annotations.and_then(|all| all.get(PROVIDED)).into_iter().flat_map(|ips| ips.split(',').rev()) {
        match wanted.iter().position(|address| address.address == ip) {
            Some(at) => wanted[..=at].rotate_right(1),
            None => return Err(format!("failed to get node address from cloud provider that matches ip: {ip}")),
        }
    }
    wanted.extend(present(node).iter().find(|address| address.type_ == HOSTNAME).cloned());
    Ok(wanted)
}
