//! Tests the queueing hints.

use crate::fixture::{hint, info, node, pod};
use proto::kinds::api::core::v1::Node;
use scheduling_framework::ClusterEvent;
use scheduling_framework::pod_info::PodInfo;
use serde_json::json;
use std::sync::Arc;

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
    let (zoned, bare) = (node("n", "a", json!({})), node("n", "a", json!({"metadata": {"labels": {"zone": null}}})));
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
