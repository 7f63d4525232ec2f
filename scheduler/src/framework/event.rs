//! What happens in a cluster that can make a pod schedulable that was not.
//!
//! Corresponds to framework.ClusterEvent and the queueing hints of pkg/scheduler.

use crate::cache::NodeInfo;
use crate::pod_info::PodInfo;
use proto::kinds::api::core::v1::Node;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum ClusterEvent {
    NodeAdded(Arc<Node>),
    NodeUpdated {
        old: Arc<Node>,
        new: Arc<Node>,
    },
    /// A pod has appeared on a node, or one there has changed its labels.
    AssignedPodAdded(Arc<PodInfo>),
    AssignedPodUpdated {
        old: Arc<PodInfo>,
        new: Arc<PodInfo>,
    },
    /// A pod has left its node: it is gone, or it has ended.
    AssignedPodDeleted(Arc<PodInfo>),
    NamespaceChanged,
    /// A claim, volume or storage class has come or changed.
    VolumesChanged,
    /// The waiting pod itself has changed.
    PodUpdated {
        old: Arc<PodInfo>,
        new: Arc<PodInfo>,
    },
    /// Everything may have changed.
    WildCard,
}

impl ClusterEvent {
    /// The node that has come or changed.
    pub fn node(&self) -> Option<&Arc<Node>> {
        match self {
            ClusterEvent::NodeAdded(node) | ClusterEvent::NodeUpdated { new: node, .. } => Some(node),
            _ => None,
        }
    }

    /// The node that has come or changed, if this part of it is new.
    pub fn node_if_changed<T: PartialEq>(&self, part: impl Fn(&Node) -> T) -> Option<&Arc<Node>> {
        match self {
            ClusterEvent::NodeAdded(node) => Some(node),
            ClusterEvent::NodeUpdated { old, new } if part(old) != part(new) => Some(new),
            _ => None,
        }
    }

    /// Changes of a waiting pod are nobody else's business.
    pub fn concerns(&self, pod: &PodInfo) -> bool {
        !matches!(self, ClusterEvent::PodUpdated { new, .. } if new.uid() != pod.uid())
    }

    /// The pod itself has changed in this part.
    pub fn pod_if_changed<T: PartialEq>(&self, part: impl Fn(&PodInfo) -> T) -> bool {
        matches!(self, ClusterEvent::PodUpdated { old, new } if part(old) != part(new))
    }
}

/// A node alone, for hints that look at it as a filter would.
pub fn bare(node: &Arc<Node>) -> NodeInfo {
    let mut info = NodeInfo::default();
    info.set_node(node.clone());
    info
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{hint, info, node, pod};
    use serde_json::json;

    #[test]
    fn only_events_that_can_help_wake_a_pod() {
        let waiting = info(pod("web-1", "2", json!({"nodeSelector": {"disk": "ssd"}})));
        let plain = node("n", "a", json!({}));
        let ssd = node("n", "a", json!({"metadata": {"labels": {"disk": "ssd"}}}));
        let small = node("n", "a", json!({"status": {"allocatable": {"cpu": "1"}}}));
        let cordoned = node("n", "a", json!({"spec": {"unschedulable": true}}));
        let tainted = node("n", "a", json!({"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}}));
        let update =
            |old: &Arc<Node>, new: &Arc<Node>| ClusterEvent::NodeUpdated { old: old.clone(), new: new.clone() };
        let gone = ClusterEvent::AssignedPodDeleted(info(pod("db-1", "1", json!({}))));
        let tolerating = info(pod("web-1", "2", json!({"tolerations": [{"operator": "Exists"}]})));
        let changed = ClusterEvent::PodUpdated { old: waiting.clone(), new: tolerating };
        for (plugin, event, expected) in [
            ("NodeAffinity", update(&plain, &ssd), true),
            ("NodeAffinity", update(&ssd, &ssd), false),
            ("NodeAffinity", update(&ssd, &plain), false),
            ("NodeAffinity", gone.clone(), false),
            ("NodeResourcesFit", gone.clone(), true),
            ("NodeResourcesFit", update(&small, &plain), true),
            ("NodeResourcesFit", update(&plain, &small), false),
            ("NodeResourcesFit", ClusterEvent::NodeAdded(small), false),
            ("NodeUnschedulable", update(&cordoned, &plain), true),
            ("NodeUnschedulable", update(&plain, &cordoned), false),
            ("TaintToleration", update(&tainted, &plain), true),
            ("TaintToleration", update(&plain, &tainted), false),
            ("TaintToleration", changed.clone(), true),
            ("NodePorts", gone.clone(), false),
            ("NodePorts", changed, false),
            ("VolumeBinding", ClusterEvent::VolumesChanged, true),
            ("InterPodAffinity", gone, true),
        ] {
            assert_eq!(hint(plugin, &waiting, &event), expected, "{plugin}: {event:?}");
        }
    }
}
