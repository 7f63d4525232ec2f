//! Reports which volumes a node uses, and wakes the pods that wait for theirs.
//!
//! Corresponds to the desired state of the world in pkg/kubelet/volumemanager/cache.

use crate::fleet::kubelet::SimulatedKubelet;
use crate::fleet::node_tasks::NodeTask;
use crate::fleet::pod_volumes::are_unknown;
use crate::fleet::{BY_NODE, Fleet};
use client::Event;
use component_helpers::volumes::pod_volumes::with_claims;
use pod_life::conditions;
use proto::Kind;
use proto::kinds::api::core::v1::{AttachedVolume, Node};
use std::sync::atomic::Ordering;

impl Fleet {
    /// Reports the volumes in use of a node soon, if they have changed.
    pub(super) fn report_volumes(&self, at: usize) {
        if self.members.at(at).has_volume_change.swap(false, Ordering::AcqRel) {
            self.node_queue.add(NodeTask::ReportStatus(at));
        }
    }

    /// Lets pods that wait for their volumes try again, if those of the node have changed.
    pub(super) fn retry_mounts(&self, event: &Event<Node>) {
        let Event::Updated { old, new } = event else { return };
        if volumes(old) == volumes(new) {
            return;
        }
        for pod in self.pods.by_index(BY_NODE, new.name()) {
            let (status, _) = self.memory.status_of(&pod);
            if with_claims(&pod).next().is_some() && !conditions::has_sandbox(&status) {
                self.pod_queue.add(pod.key());
            }
        }
    }

    /// Forgets the volumes that an earlier run of the agent has reported, once those of all pods are known.
    pub(super) fn settle_volumes(&self, kubelet: &SimulatedKubelet) {
        if kubelet.has_left_over_volumes() {
            let pods = self.pods.by_index(BY_NODE, &kubelet.machine.name);
            if !pods.iter().any(|pod| are_unknown(kubelet, pod, &self.memory.status_of(pod).0)) {
                kubelet.drop_left_over_volumes();
            }
        }
    }
}

type Lists<'a> = (&'a Option<Vec<AttachedVolume>>, &'a Option<Vec<String>>);

/// Returns the volumes that a node's status lists as attached, and those in use.
fn volumes(node: &Node) -> Option<Lists<'_>> {
    node.status.as_ref().map(|status| (&status.volumes_attached, &status.volumes_in_use))
}
