//! Finds out which attachable volumes a pod of a node uses, and registers their driver there.
//!
//! Corresponds to pkg/kubelet/volumemanager/populator and reconciler.

use crate::fleet::kubelet::SimulatedKubelet;
use crate::volumes::claim_reader::read_claims;
use crate::volumes::csi_node;
use component_helpers::volumes::csi_volume::{CsiVolume, SIMULATED_DRIVER};
use component_helpers::volumes::pod_volumes;
use pod_life::conditions;
use pod_life::needs::claims::{self, Claims};
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod, PodStatus};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// Reads the claims of a pod that is about to mount them. From now on its volumes are in use.
pub async fn read(kubelet: &SimulatedKubelet, node: &Node, pod: &Pod) -> Claims {
    let read = read_claims(&kubelet.client, node, pod).await;
    if !read.is_empty() {
        use_volumes(kubelet, node, pod, &read).await;
    }
    read
}

/// Finds out which attachable volumes a pod uses that was started by an earlier run of the agent.
pub async fn remember(kubelet: &SimulatedKubelet, node: &Node, pod: &Pod, status: &PodStatus) {
    if !are_unknown(kubelet, pod, status) {
        return;
    }
    let read = read_claims(&kubelet.client, node, pod).await;
    if read.values().all(|claim| claim.error.is_none()) {
        use_volumes(kubelet, node, pod, &read).await;
    }
}

/// True if a pod runs with claims of which nothing is known.
pub fn are_unknown(kubelet: &SimulatedKubelet, pod: &Pod, status: &PodStatus) -> bool {
    let has_claims = pod_volumes::with_claims(pod).next().is_some();
    has_claims
        && conditions::has_sandbox(status)
        && !conditions::is_terminal(status)
        && !kubelet.knows_volumes(pod.uid())
}

async fn use_volumes(kubelet: &SimulatedKubelet, node: &Node, pod: &Pod, read: &Claims) {
    let volumes = claims::attachable(pod, read);
    register_driver(kubelet, node, &volumes).await;
    kubelet.use_volumes(pod.uid(), volumes);
}

/// Registers the simulated driver with the first of its volumes.
async fn register_driver(kubelet: &SimulatedKubelet, node: &Node, volumes: &BTreeSet<String>) {
    let is_simulated =
        |name: &String| CsiVolume::from_unique_name(name).is_some_and(|volume| volume.driver == SIMULATED_DRIVER);
    let is_due = !node.uid().is_empty() && !kubelet.has_csi_node.load(Ordering::Acquire);
    if !is_due || !volumes.iter().any(is_simulated) {
        return;
    }
    match csi_node::register(&kubelet.client, node).await {
        Ok(()) => kubelet.has_csi_node.store(true, Ordering::Release),
        Err(error) => tracing::warn!(node = node.name(), %error, "the CSI driver is not registered"),
    }
}
