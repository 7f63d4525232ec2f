//! `ClusterEvent`, an event that may make an unschedulable pod schedulable.
//!
//! Corresponds to framework.ClusterEvent and the queueing hints of pkg/scheduler.

use crate::cache::NodeInfo;
use crate::pod_info::PodInfo;
use proto::kinds::api::core::v1::{Node, PersistentVolumeClaim};
use proto::kinds::api::resource::v1::ResourceClaim;
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
    /// Returns the event of an updated node; `None` if scheduling does not depend on the change, as with heartbeats.
    pub fn node_updated(old: &Arc<Node>, new: &Arc<Node>) -> Option<Self> {
        let spec = |node: &Node| node.spec.as_ref().map(|spec| (spec.taints.clone(), spec.unschedulable));
        let allocatable = |node: &Node| node.status.as_ref().and_then(|status| status.allocatable.clone());
        let same = old.metadata.labels == new.metadata.labels
            && spec(old) == spec(new)
            && allocatable(old) == allocatable(new);
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

    /// Returns false for an update of another pod in the queue.
    pub fn concerns(&self, pod: &PodInfo) -> bool {
        match self {
            ClusterEvent::PodUpdated { new, .. } => new.uid() == pod.uid(),
            ClusterEvent::Forced { uid } => uid == pod.uid(),
            _ => true,
        }
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
    use crate::fixture::{hint, info, node, pod};
    use serde_json::json;

    fn update(old: &Arc<Node>, new: &Arc<Node>) -> ClusterEvent {
        ClusterEvent::NodeUpdated { old: old.clone(), new: new.clone() }
    }

    fn check(waiting: &PodInfo, table: impl IntoIterator<Item = (&'static str, ClusterEvent, bool)>) {
        for (row, (plugin, event, expected)) in table.into_iter().enumerate() {
            assert_eq!(hint(plugin, waiting, &event), expected, "row {row}, {plugin}");
        }
    }

    #[test]
    fn only_events_that_may_help_have_a_hint() {
        let waiting = info(pod("web-1", "2", json!({"nodeSelector": {"disk": "ssd"}})));
        let plain = node("n", "a", json!({}));
        let ssd = node("n", "a", json!({"metadata": {"labels": {"disk": "ssd"}}}));
        let small = node("n", "a", json!({"status": {"allocatable": {"cpu": "1"}}}));
        let cordoned = node("n", "a", json!({"spec": {"unschedulable": true}}));
        let tainted = node("n", "a", json!({"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}}));
        let gone = ClusterEvent::AssignedPodDeleted(info(pod("db-1", "1", json!({}))));
        let tolerating = info(pod("web-1", "2", json!({"tolerations": [{"operator": "Exists"}]})));
        let changed = ClusterEvent::PodUpdated { old: waiting.clone(), new: tolerating };
        let table = [
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
            ("InterPodAffinity", gone, false),
        ];
        check(&waiting, table);
    }

    #[test]
    fn affinity_waits_for_matching_pods_and_anti_affinity_for_their_deletion() {
        let term = |app: &str| json!([{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}}]);
        let required = |kind: &str, app: &str| json!({"affinity": {(kind): {"requiredDuringSchedulingIgnoredDuringExecution": term(app)}}});
        let friendly = info(pod("web-1", "1", required("podAffinity", "db")));
        let shy = info(pod("web-1", "1", required("podAntiAffinity", "db")));
        let (db, web) = (info(pod("db-1", "1", json!({}))), info(pod("web-2", "1", json!({}))));
        let hostile = info(pod("db-2", "1", required("podAntiAffinity", "web")));
        let relabelled = |from: &Arc<PodInfo>, to: &Arc<PodInfo>| ClusterEvent::AssignedPodUpdated {
            old: from.clone(),
            new: to.clone(),
        };
        let (zoned, bare) =
            (node("n", "a", json!({})), node("n", "a", json!({"metadata": {"labels": {"zone": null}}})));
        let added = |pod: &Arc<PodInfo>| ClusterEvent::AssignedPodAdded(pod.clone());
        let deleted = |pod: &Arc<PodInfo>| ClusterEvent::AssignedPodDeleted(pod.clone());
        const NAME: &str = "InterPodAffinity";
        let table = [
            (NAME, added(&db), true),
            (NAME, added(&web), false),
            (NAME, relabelled(&web, &db), true),
            (NAME, relabelled(&db, &web), false),
            (NAME, deleted(&web), false),
            (NAME, deleted(&hostile), true),
            (NAME, ClusterEvent::NodeAdded(zoned.clone()), true),
            (NAME, ClusterEvent::NodeAdded(bare.clone()), false),
            (NAME, update(&bare, &zoned), true),
        ];
        check(&friendly, table);
        let table = [
            (NAME, added(&db), false),
            (NAME, deleted(&db), true),
            (NAME, deleted(&web), false),
            (NAME, relabelled(&db, &web), true),
            (NAME, relabelled(&web, &db), false),
            (NAME, ClusterEvent::NodeAdded(bare), true),
        ];
        check(&shy, table);
    }

    #[test]
    fn spreading_waits_for_matching_pods_and_for_its_topology() {
        let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]});
        let waiting = info(pod("web-1", "1", spread));
        let (db, web) = (info(pod("db-1", "1", json!({}))), info(pod("web-2", "1", json!({}))));
        let (a, b, none) = (
            node("n", "a", json!({})),
            node("n", "b", json!({})),
            node("n", "a", json!({"metadata": {"labels": {"zone": null}}})),
        );
        let disk = node("n", "a", json!({"metadata": {"labels": {"disk": "ssd"}}}));
        const NAME: &str = "PodTopologySpread";
        let table = [
            (NAME, ClusterEvent::AssignedPodAdded(web.clone()), true),
            (NAME, ClusterEvent::AssignedPodAdded(db.clone()), false),
            (NAME, ClusterEvent::AssignedPodDeleted(web.clone()), true),
            (NAME, ClusterEvent::AssignedPodDeleted(db.clone()), false),
            (NAME, ClusterEvent::AssignedPodUpdated { old: web, new: db }, true),
            (NAME, ClusterEvent::NodeAdded(a.clone()), true),
            (NAME, ClusterEvent::NodeAdded(none.clone()), false),
            (NAME, ClusterEvent::NodeDeleted(a.clone()), true),
            (NAME, update(&a, &b), true),
            (NAME, update(&a, &disk), false),
            (NAME, update(&a, &none), true),
        ];
        check(&waiting, table);
    }

    #[test]
    fn heartbeats_and_progress_are_no_events() {
        let (quiet, beat) = (node("n", "a", json!({})), node("n", "a", json!({"status": {"conditions": []}})));
        assert!(ClusterEvent::node_updated(&quiet, &beat).is_none());
        let before = info(pod("web-1", "2", json!({})));
        for (cpu, news) in [("2", false), ("3", false), ("1", true)] {
            let after = info(pod("web-1", cpu, json!({})));
            assert_eq!(ClusterEvent::assigned_pod_updated(before.clone(), after).is_some(), news, "{cpu}");
        }
    }
}
