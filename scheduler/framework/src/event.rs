//! `ClusterEvent`, an event that may make an unschedulable pod schedulable.
//!
//! Corresponds to framework.ClusterEvent and the queueing hints of pkg/scheduler.

use crate::cache::NodeInfo;
use crate::pod_info::PodInfo;
use proto::kinds::api::core::v1::{Node, PersistentVolumeClaim};
use proto::kinds::api::resource::v1::ResourceClaim;
use proto::kinds::api::scheduling::v1alpha2::PodGroup;
use proto::kinds::metav1::ObjectMeta;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum ClusterEvent {
    NodeAdded(Arc<Node>),
    NodeUpdated {
        old: Arc<Node>,
        new: Arc<Node>,
    },
    NodeDeleted(Arc<Node>),
    /// A pod was bound to a node.
    AssignedPodAdded(Arc<PodInfo>),
    AssignedPodUpdated {
        old: Arc<PodInfo>,
        new: Arc<PodInfo>,
    },
    /// A bound, assumed or nominated pod has released its node: it was deleted, is terminal, or was not bound.
    AssignedPodDeleted(Arc<PodInfo>),
    /// A pod of a PodGroup was added that has no node yet.
    UnscheduledPodAdded(Arc<PodInfo>),
    PodGroupAdded(Arc<PodGroup>),
    ClaimChanged(Arc<PersistentVolumeClaim>),
    /// A volume, storage class, driver or capacity was added or updated.
    VolumesChanged,
    /// A claim of devices was added, updated or deleted.
    ResourceClaimChanged {
        old: Option<Arc<ResourceClaim>>,
        new: Option<Arc<ResourceClaim>>,
    },
    /// A class or a slice of devices was added or updated.
    DevicesChanged,
    /// A pod in the queue was updated.
    PodUpdated {
        old: Arc<PodInfo>,
        new: Arc<PodInfo>,
    },
    /// One pod is to be tried again without an event.
    Forced {
        uid: String,
    },
}

impl ClusterEvent {
    /// Returns the name of the event in logs and metrics, as Kubernetes labels it.
    pub fn label(&self) -> &'static str {
        match self {
            ClusterEvent::NodeAdded(_) => "NodeAdd",
            ClusterEvent::NodeUpdated { old, new } => node_update_label(old, new),
            ClusterEvent::NodeDeleted(_) => "NodeDelete",
            ClusterEvent::AssignedPodAdded(_) => "AssignedPodAdd",
            ClusterEvent::AssignedPodUpdated { .. } => "AssignedPodUpdate",
            ClusterEvent::AssignedPodDeleted(_) => "AssignedPodDelete",
            ClusterEvent::UnscheduledPodAdded(_) => "UnschedulablePodAdd",
            ClusterEvent::PodGroupAdded(_) => "PodGroupAdd",
            ClusterEvent::ClaimChanged(_) => "PersistentVolumeClaimUpdate",
            ClusterEvent::VolumesChanged => "PersistentVolumeUpdate",
            ClusterEvent::ResourceClaimChanged { old: None, .. } => "ResourceClaimAdd",
            ClusterEvent::ResourceClaimChanged { new: None, .. } => "ResourceClaimDelete",
            ClusterEvent::ResourceClaimChanged { .. } => "ResourceClaimUpdate",
            ClusterEvent::DevicesChanged => "ResourceSliceUpdate",
            ClusterEvent::PodUpdated { .. } => "UnschedulablePodUpdate",
            ClusterEvent::Forced { .. } => "ForceActivate",
        }
    }

    /// Returns the event of an updated node; `None` if scheduling does not depend on the change, as with heartbeats.
    pub fn node_updated(old: &Arc<Node>, new: &Arc<Node>) -> Option<Self> {
        let spec = |node: &Node| node.spec.as_ref().map(|spec| (spec.taints.clone(), spec.unschedulable));
        let allocatable = |node: &Node| node.status.as_ref().and_then(|status| status.allocatable.clone());
        let declared = |node: &Node| node.status.as_ref().and_then(|status| status.declared_features.clone());
        let same = old.metadata.labels == new.metadata.labels
            && spec(old) == spec(new)
            && allocatable(old) == allocatable(new)
            && declared(old) == declared(new);
        (!same).then(|| ClusterEvent::NodeUpdated { old: old.clone(), new: new.clone() })
    }

    /// Returns the event of an updated pod on a node; `None` unless its labels changed or its requests decreased.
    pub fn assigned_pod_updated(old: Arc<PodInfo>, new: Arc<PodInfo>) -> Option<Self> {
        let may_help = old.labels() != new.labels() || old.requests.exceeds(&new.requests);
        may_help.then_some(ClusterEvent::AssignedPodUpdated { old, new })
    }

    /// Returns the former and the present state of an added or updated node.
    pub fn node_change(&self) -> Option<(Option<&Arc<Node>>, &Arc<Node>)> {
        match self {
            ClusterEvent::NodeAdded(node) => Some((None, node)),
            ClusterEvent::NodeUpdated { old, new } => Some((Some(old), new)),
            _ => None,
        }
    }

    /// Returns true if a pod in the queue was updated and `part` of it has changed.
    pub fn pod_if_changed<T: PartialEq>(&self, part: impl Fn(&PodInfo) -> T) -> bool {
        matches!(self, ClusterEvent::PodUpdated { old, new } if part(old) != part(new))
    }

    /// Returns false for an update of another pod in the queue, and for one of the status alone, which the scheduler writes. A pod
    /// that was not bound does not help itself by what it gives back.
    pub fn concerns(&self, pod: &PodInfo) -> bool {
        match self {
            ClusterEvent::PodUpdated { old, new } => new.uid() == pod.uid() && is_changed_beside_status(old, new),
            ClusterEvent::Forced { uid } => uid == pod.uid(),
            ClusterEvent::AssignedPodDeleted(gone) => gone.uid() != pod.uid(),
            _ => true,
        }
    }
}

/// Of the status, only the names of generated claims count, which another controller writes. Corresponds to isPodUpdated of
/// pkg/scheduler/backend/queue.
fn is_changed_beside_status(old: &PodInfo, new: &PodInfo) -> bool {
    let meta = |pod: &PodInfo| {
        let all = pod.pod.metadata.clone();
        ObjectMeta { resource_version: None, generation: None, managed_fields: None, ..all }
    };
    let claims = |pod: &PodInfo| pod.pod.status.as_ref().and_then(|status| status.resource_claim_statuses.clone());
    old.pod.spec != new.pod.spec || meta(old) != meta(new) || claims(old) != claims(new)
}

/// Returns the label of the part of a node that has changed.
fn node_update_label(old: &Node, new: &Node) -> &'static str {
    let taints = |node: &Node| node.spec.as_ref().map(|spec| (spec.taints.clone(), spec.unschedulable));
    if taints(old) != taints(new) {
        "NodeUpdateNodeTaint"
    } else if old.metadata.labels != new.metadata.labels {
        "NodeUpdateNodeLabel"
    } else {
        "NodeUpdateNodeAllocatable"
    }
}

/// Returns a node without pods, for queueing hints that filter it.
pub fn empty_node_info(node: &Arc<Node>) -> NodeInfo {
    let mut info = NodeInfo::default();
    info.set_node(node.clone());
    info
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{info, merge, pod};
    use serde_json::json;

    #[test]
    fn of_a_status_only_the_names_of_claims_concern_a_waiting_pod() {
        for (change, expected) in [
            (json!({}), false),
            (json!({"metadata": {"resourceVersion": "7"}}), false),
            (json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}}), false),
            (json!({"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "web-gpu"}]}}), true),
            (json!({"metadata": {"labels": {"app": "other"}}}), true),
            (json!({"spec": {"tolerations": [{"operator": "Exists"}]}}), true),
        ] {
            let mut changed = pod("web", "1", json!({}));
            merge(&mut changed, change.clone());
            let (old, new) = (info(pod("web", "1", json!({}))), info(changed));
            let event = ClusterEvent::PodUpdated { old: old.clone(), new };
            assert_eq!(event.concerns(&old), expected, "{change}");
            assert!(!event.concerns(&info(pod("db", "1", json!({})))), "{change}");
        }
    }
}
