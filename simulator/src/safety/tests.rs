//! Tests each rule with histories that keep it and with histories that violate it.

mod limits;
mod service_cidrs;
mod load_balancers;
mod claims;

use super::Safety;
use crate::controller_caches::{AnsweredWrite, CacheVersions, ControllerState};
use crate::violations::Violations;
use component_base::env::Env;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use storage::{Entry, Event};

/// Checks objects in order (`null` for a deletion) and returns the first complaint.
fn check(events: &[(&str, Value)]) -> Option<String> {
    check_all(|revision| caches_at(revision - 1, revision - 1), events)
}

/// Checks objects in order. The writer of the last one is a controller whose caches have these revisions. The first
/// event has revision 2.
fn check_with_caches(deployments: u64, replica_sets: u64, events: &[(&str, Value)]) -> Option<String> {
    check_last(&caches_at(deployments, replica_sets), events)
}

fn check_last(writer: &ControllerState, events: &[(&str, Value)]) -> Option<String> {
    let last = events.len() as u64 + 1;
    check_all(|revision| if revision == last { writer.clone() } else { caches_at(revision - 1, revision - 1) }, events)
}

fn check_all(writer: impl Fn(u64) -> ControllerState, events: &[(&str, Value)]) -> Option<String> {
    let at_once: Vec<_> = events.iter().map(|(key, value)| (0, *key, value.clone())).collect();
    check_timed(writer, &at_once)
}

/// Checks objects that are written at these seconds.
fn check_at(events: &[(i64, &str, Value)]) -> Option<String> {
    check_timed(|revision| caches_at(revision - 1, revision - 1), events)
}

fn check_timed(writer: impl Fn(u64) -> ControllerState, events: &[(i64, &str, Value)]) -> Option<String> {
    check_by(|revision| Some(writer(revision)), events)
}

/// Checks objects that others than controllers write.
fn check_without_controllers(events: &[(&str, Value)]) -> Option<String> {
    let at_once: Vec<_> = events.iter().map(|(key, value)| (0, *key, value.clone())).collect();
    check_by(|_| None, &at_once)
}

fn check_by(writer: impl Fn(u64) -> Option<ControllerState>, events: &[(i64, &str, Value)]) -> Option<String> {
    let violations = Violations::default();
    let mut safety = Safety::new(&violations, None);
    for (revision, (second, key, value)) in (2..).zip(events) {
        let entry = (!value.is_null()).then(|| Entry {
            key: (*key).into(),
            value: value.to_string().into(),
            create_revision: revision,
            mod_revision: revision,
        });
        let event = Event { revision, key: (*key).into(), current: entry, previous: None };
        let at = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(*second);
        safety.check(&Arc::new(event), at, writer(revision).as_ref());
    }
    violations.all().first().map(|violation| violation.what.clone())
}

/// Returns the state of controllers whose caches have these revisions.
fn caches_at(deployments: u64, replica_sets: u64) -> ControllerState {
    ControllerState {
        at: Env::system().now(),
        delivered: CacheVersions { deployments, replica_sets },
        since: CacheVersions { deployments, replica_sets },
        answered: Arc::default(),
    }
}

fn pod(uid: &str, node: &str, cpu: &str, ip: &str) -> Value {
    json!({
        "metadata": {"uid": uid},
        "spec": {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": cpu}}}]},
        "status": {"podIP": ip},
    })
}

fn node(uid: &str) -> Value {
    json!({"metadata": {"uid": uid}, "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "2"}}})
}

const A: &str = "/registry/pods/default/a";
const B: &str = "/registry/pods/default/b";
const C: &str = "/registry/pods/default/c";
const N: &str = "/registry/minions/n";

#[test]
fn placements() {
    let (one, two) = (pod("1", "n", "1500m", ""), pod("2", "n", "600m", ""));
    assert_eq!(check(&[(N, node("n")), (A, pod("1", "", "1", "")), (A, one.clone()), (A, one.clone())]), None);
    let rebound = check(&[(A, one.clone()), (A, pod("1", "m", "1", ""))]).unwrap();
    assert!(rebound.contains("was bound to n and now is to \"m\""), "{rebound}");
    let crowded = check(&[(N, node("n")), (A, one.clone()), (B, two.clone())]).unwrap();
    assert!(crowded.contains("has 2000 thousandths of cpu and promised 2100"), "{crowded}");
    let mut ended = one.clone();
    ended["status"]["phase"] = json!("Succeeded");
    assert_eq!(check(&[(N, node("n")), (A, one.clone()), (A, ended), (B, two.clone())]), None);
    assert_eq!(check(&[(N, node("n")), (A, one), (A, Value::Null), (B, two)]), None);
    let small = |uid: &str| pod(uid, "n", "1m", "");
    let many = check(&[(N, node("n")), (A, small("1")), (B, small("2")), (C, small("3"))]).unwrap();
    assert!(many.contains("thousandths of pods"), "{many}");
}

#[test]
fn lives() {
    let pod = |phase: &str, run: &str, restarts: i32, state: Value| {
        let status = json!({
            "name": "c", "image": "a", "imageID": "a", "ready": false, "containerID": run, "restartCount": restarts,
            "state": state,
        });
        json!({
            "metadata": {"uid": "1"}, "spec": {"containers": []},
            "status": {"phase": phase, "containerStatuses": [status]},
        })
    };
    let running = || json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    let exited = || json!({"terminated": {"exitCode": 1}});
    let both = |first: &Value, second: Value| check(&[(A, first.clone()), (A, second)]).unwrap_or_default();
    let first = pod("Running", "r0", 0, running());
    assert_eq!(both(&first, pod("Running", "r0", 0, exited())), "");
    assert_eq!(both(&first, pod("Running", "r1", 1, running())), "");
    assert_eq!(both(&first, Value::Null), "");
    for (second, expected) in [
        (pod("Pending", "r0", 0, exited()), "its phase goes from Running to Pending"),
        (pod("Succeeded", "r0", 0, running()), "its container c runs, though the pod is Succeeded"),
        (pod("Running", "r1", -1, running()), "its container c goes back from 0 restarts to -1"),
        (pod("Running", "r1", 0, running()), "its container c is r1 with 0 restarts, and was r0 with 0"),
        (pod("Running", "r0", 1, running()), "its container c is r0 with 1 restarts, and was r0 with 0"),
        (
            pod("Running", "r0", 0, json!({"running": {"startedAt": "2026-01-01T00:00:01Z"}})),
            "its container c runs again, still with 0 restarts",
        ),
    ] {
        let complaint = both(&first, second);
        assert!(complaint.ends_with(expected), "{complaint:?} instead of {expected:?}");
    }
    let again = both(&pod("Running", "r0", 0, exited()), first);
    assert!(again.ends_with("runs again, still with 0 restarts"), "{again}");
    let ended = both(&pod("Failed", "r0", 0, exited()), pod("Succeeded", "r0", 0, exited()));
    assert!(ended.ends_with("its phase goes from Failed to Succeeded"), "{ended}");
}

#[test]
fn addresses() {
    let first = pod("1", "n", "1", "10.0.0.1");
    let twice = check(&[(A, first.clone()), (B, pod("2", "m", "1", "10.0.0.1"))]).unwrap();
    assert!(twice.contains("has address 10.0.0.1, which"), "{twice}");
    assert_eq!(check(&[(A, first), (A, Value::Null), (B, pod("2", "m", "1", "10.0.0.1"))]), None);
    let service = |uid: &str, ip: &str, port: u16| {
        let ports = json!([{"port": 80, "nodePort": port, "protocol": "TCP"}]);
        json!({"metadata": {"uid": uid}, "spec": {"clusterIPs": [ip], "ports": ports}})
    };
    let key = |name: &str| format!("/registry/services/specs/default/{name}");
    let both = |second: Value| check(&[(&key("x"), service("1", "10.96.0.9", 30000)), (&key("y"), second)]);
    assert_eq!(both(service("2", "10.96.0.10", 30001)), None);
    assert!(both(service("2", "10.96.0.9", 30001)).unwrap().contains("address 10.96.0.9"));
    assert!(both(service("2", "10.96.0.10", 30000)).unwrap().contains("node port 30000/TCP"));
}

#[test]
fn identity() {
    let object = |uid: &str, generation: i64, deleting: bool| {
        let at = deleting.then_some("2026-01-01T00:00:00Z");
        json!({"metadata": {"uid": uid, "generation": generation, "deletionTimestamp": at}})
    };
    let key = "/registry/configmaps/default/x";
    let other = "/registry/secrets/default/x";
    assert_eq!(check(&[(key, object("1", 1, false)), (key, Value::Null), (key, object("2", 1, false))]), None);
    let cases = [
        ([(key, object("1", 1, false)), (key, object("2", 1, false))], "became another object"),
        ([(key, object("1", 1, false)), (other, object("1", 1, false))], "has the uid 1 that"),
        ([(key, object("1", 1, true)), (key, object("1", 1, false))], "came back from its deletion"),
        ([(key, object("1", 2, false)), (key, object("1", 1, false))], "generation of"),
    ];
    for (events, complaint) in cases {
        let found = check(&events).unwrap();
        assert!(found.contains(complaint), "{found}");
    }
}

const S: &str = "/registry/statefulsets/default/s";

/// Returns the pod of an ordinal: pending, ready, or with its containers ended.
fn stateful_pod(ordinal: u64, state: &str) -> (String, Value) {
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "s", "controller": true});
    let phase = if state == "pending" { "Pending" } else { "Running" };
    let ready = json!([{"type": "Ready", "status": if state == "ready" { "True" } else { "False" }}]);
    let run = match state {
        "pending" => json!({"waiting": {}}),
        "ended" => json!({"terminated": {"exitCode": 0}}),
        _ => json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}),
    };
    let status = json!({
        "name": "c", "image": "a", "imageID": "a", "ready": false, "containerID": "r", "restartCount": 0, "state": run,
    });
    let name = format!("s-{ordinal}");
    let pod = json!({
        "metadata": {"name": name, "uid": name, "ownerReferences": [owner]}, "spec": {"containers": []},
        "status": {"phase": phase, "conditions": ready, "containerStatuses": [status]},
    });
    (format!("/registry/pods/default/{name}"), pod)
}

#[test]
fn identities_come_in_order() {
    let gone = |ordinal| (stateful_pod(ordinal, "ended").0, Value::Null);
    let complaint = |policy: &str, events: &[(String, Value)]| {
        let set = json!({"metadata": {"uid": "s"}, "spec": {"podManagementPolicy": policy}});
        let events: Vec<(&str, Value)> =
            std::iter::once((S, set)).chain(events.iter().map(|(key, value)| (key.as_str(), value.clone()))).collect();
        check(&events).unwrap_or_default()
    };
    let pod = stateful_pod;
    // The next pod of that name.
    let next = |ordinal| {
        let (key, mut pod) = stateful_pod(ordinal, "pending");
        pod["metadata"]["uid"] = json!("next");
        (key, pod)
    };
    let in_order = [pod(0, "pending"), pod(0, "ready"), pod(1, "pending"), pod(1, "ready")];
    assert_eq!(complaint("OrderedReady", &in_order), "");
    let early = [pod(0, "pending"), pod(1, "pending")];
    assert!(complaint("OrderedReady", &early).contains("s-1 was created, and the pods below it were never ready"));
    assert_eq!(complaint("Parallel", &early), "");
    // The cache lagged: pod 0 was ready when the controller decided to create pod 1.
    let lagging = [pod(0, "ready"), pod(0, "ended"), gone(0), pod(1, "pending")];
    assert_eq!(complaint("OrderedReady", &lagging), "");
    // It ended before pod 1 did, so it was not ready when pod 1 was missed.
    let again = [pod(0, "ready"), pod(1, "ready"), pod(0, "ended"), pod(1, "ended"), gone(1), next(1)];
    assert!(complaint("OrderedReady", &again).contains("never ready at once"));
    let twice = [pod(0, "ready"), gone(0), next(0)];
    assert!(complaint("Parallel", &twice).contains("s-0 is gone, and its container c still runs"));
    assert_eq!(complaint("Parallel", &[pod(0, "ready"), pod(0, "ended"), gone(0), next(0)]), "");
}

const D: &str = "/registry/deployments/default/d";
const R1: &str = "/registry/replicasets/default/r1";
const R2: &str = "/registry/replicasets/default/r2";

fn owned(uid: &str, by: &str) -> Value {
    json!({"uid": uid, "ownerReferences": [{"uid": by, "controller": true}]})
}

/// Returns a Deployment of 4 with 3 to 5 pods.
fn steady_deployment() -> Value {
    json!({
        "metadata": {"uid": "d", "labels": {"steady": ""}},
        "spec": {"replicas": 4, "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}},
    })
}

fn set(uid: &str, replicas: i64, available: i64) -> Value {
    json!({
        "metadata": owned(uid, "d"), "spec": {"replicas": replicas}, "status": {"availableReplicas": available},
    })
}

#[test]
fn replica_sets_grow_within_the_surge() {
    let events = |size: i64| vec![(D, steady_deployment()), (R1, set("r1", 4, 4)), (R2, set("r2", size, 0))];
    assert_eq!(check(&events(1)), None);
    let surge = check(&events(2)).unwrap();
    assert!(surge.contains("6 pods in all, where 5 is the most"), "{surge}");
    assert_eq!(check_with_caches(2, 2, &events(4)), None, "the cache did not have r1 yet");
    assert!(check_with_caches(2, 2, &events(6)).is_some(), "too many even so");
}

#[test]
fn a_cache_has_the_answered_writes() {
    let events = [(D, steady_deployment()), (R1, set("r1", 4, 4)), (R2, set("r2", 4, 0))];
    let lagging = caches_at(2, 2);
    let answer = |ago_ms: u64| {
        let answered_at = lagging.at - Duration::from_millis(ago_ms);
        let requested_at = answered_at - Duration::from_millis(5);
        let answer = AnsweredWrite { version: 3, requested_at, delivered: lagging.delivered, answered_at };
        ControllerState { answered: Arc::new([(R1.to_owned(), answer)].into()), ..lagging.clone() }
    };
    assert_eq!(check_last(&lagging, &events), None, "the answer to r1 was lost, or an earlier instance wrote it");
    let surge = check_last(&answer(1), &events).unwrap();
    assert!(surge.contains("8 pods in all"), "{surge}");
    assert_eq!(check_last(&answer(0), &events), None, "one reconcile wrote both, and used the versions before");
}

#[test]
fn a_cache_has_the_version_that_is_updated() {
    let before = [(D, steady_deployment()), (R2, set("r2", 1, 0)), (R1, set("r1", 4, 4))];
    let grown = |more: &[(&'static str, Value)]| {
        let grown = [(R2, set("r2", 2, 1))];
        check_with_caches(2, 2, &before.iter().chain(more).chain(&grown).cloned().collect::<Vec<_>>())
    };
    assert_eq!(grown(&[]), None, "the cache did not have r1");
    assert!(grown(&[(R2, set("r2", 1, 1))]).is_some(), "the version of r2 that is updated is newer than r1");
}

#[test]
fn limits_are_those_of_the_cached_deployment() {
    let mut smaller = steady_deployment();
    smaller["spec"]["replicas"] = json!(2);
    let events = [(D, steady_deployment()), (D, smaller), (R1, set("r1", 5, 0))];
    assert_eq!(check_with_caches(2, 3, &events), None);
    let surge = check_with_caches(3, 3, &events).unwrap();
    assert!(surge.contains("5 pods in all, where 3 is the most"), "{surge}");
}

#[test]
fn replica_sets_shrink_by_the_pods_that_can_be_spared() {
    let begin = [(D, steady_deployment()), (R1, set("r1", 4, 4)), (R2, set("r2", 1, 0))];
    let after = |cached: u64, more: &[(&'static str, Value)]| {
        check_with_caches(cached, cached, &begin.iter().chain(more).cloned().collect::<Vec<_>>())
    };
    assert_eq!(after(4, &[(R1, set("r1", 3, 4))]), None);
    let few = after(4, &[(R1, set("r1", 2, 4))]).unwrap();
    assert!(few.contains("2 pods serve then, where 3 is the least"), "{few}");
    let serves = (R2, set("r2", 1, 1));
    assert_eq!(after(5, &[serves.clone(), (R1, set("r1", 2, 4))]), None);
    assert!(after(4, &[serves, (R1, set("r1", 2, 4))]).is_some(), "the cache did not show that r2 serves");
    assert!(after(4, &[(R1, set("r1", 3, 4)), (R1, set("r1", 1, 4))]).is_some(), "whichever version the cache had");
    assert_eq!(after(5, &[(R1, set("r1", 4, 2)), (R1, set("r1", 2, 2))]), None, "none of them served");
    let mut scaled = set("r1", 0, 4);
    scaled["metadata"]["annotations"] = json!({"deployment.kubernetes.io/desired-replicas": "0"});
    assert_eq!(after(4, &[(R1, scaled)]), None, "the Deployment was scaled");
}

#[test]
fn no_more_pods_are_deleted_than_are_too_many() {
    let pod = |name: &str, deleting: bool| {
        let mut pod =
            json!({"metadata": owned(name, "r1"), "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        if deleting {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        pod
    };
    let after = |cached: u64, more: &[(&'static str, Value)]| {
        let begin = [(D, steady_deployment()), (R1, set("r1", 3, 2))];
        let pods = [(A, pod("a", false)), (B, pod("b", false)), (C, pod("c", false))];
        check_with_caches(cached, cached, &begin.iter().chain(&pods).chain(more).cloned().collect::<Vec<_>>())
    };
    let smaller = (R1, set("r1", 2, 2));
    assert_eq!(after(7, &[smaller.clone(), (A, pod("a", true))]), None);
    let few = after(8, &[smaller.clone(), (A, pod("a", true)), (B, pod("b", true))]).unwrap();
    assert!(few.contains("1 pods are left, where 2 are wanted"), "{few}");
    assert!(after(8, &[smaller.clone(), (R1, set("r1", 3, 2)), (A, pod("a", true))]).is_some());
    assert_eq!(
        after(7, &[smaller, (R1, set("r1", 3, 2)), (A, pod("a", true))]),
        None,
        "the cache had the smaller size"
    );
}

#[test]
fn volumes_have_one_claim() {
    const V: &str = "/registry/persistentvolumes/v";
    const ONE: &str = "/registry/persistentvolumeclaims/default/one";
    const TWO: &str = "/registry/persistentvolumeclaims/default/two";
    let volume = |uid: &str| json!({"metadata": {"name": "v"}, "spec": {"claimRef": {"uid": uid}}});
    let claim = |uid: &str, volume: &str, phase: &str| json!({"metadata": {"uid": uid}, "spec": {"volumeName": volume}, "status": {"phase": phase}});
    let bound = [(V, volume("1")), (ONE, claim("1", "v", "Pending")), (ONE, claim("1", "v", "Bound"))];
    assert_eq!(check(&bound), None);
    let after = |more: &[(&str, Value)]| check(&[&bound, more].concat()).unwrap_or_default();
    assert!(after(&[(V, volume("2"))]).contains("was taken from"));
    assert!(
        after(&[(ONE, Value::Null), (V, volume("2"))]).contains("held data of 1, which is gone, and went to \"2\"")
    );
    assert!(after(&[(TWO, claim("2", "v", "Bound"))]).contains("are bound to"));
    assert_eq!(after(&[(ONE, Value::Null), (V, Value::Null)]), "");
    let elsewhere = check(&[(V, volume("")), (TWO, claim("2", "w", "Pending")), (V, volume("2")), (V, volume(""))]);
    assert_eq!(elsewhere, None, "the claim has another volume");
    let mine = check(&[(V, volume("1")), (TWO, claim("2", "v", "Bound"))]).unwrap();
    assert!(mine.contains("which refers to another"), "{mine}");
}

#[test]
fn daemons() {
    let set = |surge: Value| {
        let rolling = json!({"maxSurge": surge, "maxUnavailable": 1});
        json!({"metadata": {"uid": "d"}, "spec": {"updateStrategy": {"rollingUpdate": rolling}}})
    };
    let pod = |uid: &str, node: &str, phase: &str, deleting: bool| {
        let terms = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]);
        json!({
            "metadata": {
                "uid": uid, "ownerReferences": [{"uid": "d", "controller": true}],
                "deletionTimestamp": deleting.then_some("2026-01-01T00:00:00Z"),
            },
            "spec": {"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
            }}},
            "status": {"phase": phase},
        })
    };
    let key = "/registry/daemonsets/default/logs";
    let beside = |surge: Value, first: Value| {
        check(&[(key, set(surge)), (A, first), (B, pod("2", "n", "Pending", false))]).unwrap_or_default()
    };
    let complaint = format!("{B} was created for n, where {A} of its DaemonSet run");
    for (surge, phase, deleting, expected) in [
        (json!(0), "Running", false, true),
        (json!("0%"), "Pending", false, true),
        (json!(0), "Running", true, true),
        (json!(0), "Failed", false, false),
        (json!(1), "Running", false, false),
    ] {
        let complained = beside(surge.clone(), pod("1", "n", phase, deleting)).ends_with(&complaint);
        assert_eq!(complained, expected, "{surge} {phase} {deleting}");
    }
    assert_eq!(beside(json!(0), pod("1", "m", "Running", false)), "", "another node");
    let third = |second: Value| {
        check(&[
            (key, set(json!("50%"))),
            (A, pod("1", "n", "Running", false)),
            (B, second),
            (C, pod("3", "n", "Pending", false)),
        ])
    };
    let complaint = third(pod("2", "n", "Running", false)).unwrap();
    assert!(complaint.contains(&format!("where {A} and {B} of its DaemonSet run")), "{complaint}");
    assert_eq!(third(pod("2", "n", "Running", true)), None, "one of them is being deleted");
}

#[test]
fn a_volume_for_one_node_is_attached_to_one() {
    const ONE: &str = "/registry/volumeattachments/one";
    const TWO: &str = "/registry/volumeattachments/two";
    let volume = |mode: &str| json!({"metadata": {"name": "v", "uid": "v"}, "spec": {"accessModes": [mode]}});
    let attachment = |node: &str, attached: bool| {
        json!({
        "metadata": {"name": node, "uid": node},
                   "spec": {"attacher": "a", "nodeName": node, "source": {"persistentVolumeName": "v"}},
                   "status": {"attached": attached},
               })
    };
    let second = |mode: &str, events: &[(&str, Value)]| {
        check(&[&[("/registry/persistentvolumes/v", volume(mode))], events].concat()).unwrap_or_default()
    };
    let both = [(ONE, attachment("m", true)), (TWO, attachment("n", true))];
    assert!(second("ReadWriteOnce", &both).ends_with("v is attached to n, and still to m"));
    assert_eq!(second("ReadWriteMany", &both), "");
    assert_eq!(second("ReadWriteOnce", &[both[0].clone(), (TWO, attachment("n", false))]), "");
    assert_eq!(second("ReadWriteOnce", &[both[0].clone(), (ONE, Value::Null), both[1].clone()]), "");
}

#[test]
fn autoscalers_keep_their_bounds() {
    const HPA: &str = "/registry/horizontalpodautoscalers/default/web";
    const WEB: &str = "/registry/deployments/default/web";
    let autoscaler = |most: i32, desired: i32| {
        json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "hpa"},
            "spec": {"minReplicas": 2, "maxReplicas": most, "scaleTargetRef": {"kind": "Deployment", "name": "web"}},
            "status": {"currentReplicas": 2, "desiredReplicas": desired},
        })
    };
    let deployment = |size: i32| {
        let spec = json!({"replicas": size, "selector": {}, "template": {}});
        json!({"metadata": {"name": "web", "namespace": "default", "uid": "web"}, "spec": spec})
    };
    let events = |more: &[(&str, Value)]| {
        check(&[&[(WEB, deployment(9)), (HPA, autoscaler(5, 0))], more].concat()).unwrap_or_default()
    };
    assert_eq!(events(&[(WEB, deployment(5)), (HPA, autoscaler(5, 5))]), "", "its size before does not count");
    assert!(events(&[(WEB, deployment(6))]).ends_with("goes from 9 to 6 replicas, and its autoscaler is for 2 to 5"));
    assert!(events(&[(WEB, deployment(1))]).ends_with("goes from 9 to 1 replicas, and its autoscaler is for 2 to 5"));
    assert!(events(&[(HPA, autoscaler(5, 6))]).ends_with("asks for 6 replicas, and is for 2 to 5"));
    assert_eq!(events(&[(HPA, autoscaler(5, 5)), (HPA, autoscaler(3, 5))]), "", "its bounds have just changed");
    assert_eq!(events(&[(HPA, autoscaler(3, 0)), (WEB, deployment(5))]), "", "it may not have seen its new bounds");
}

#[test]
fn a_job_counts_a_pod_once() {
    const JOB: &str = "/registry/jobs/default/work";
    let job = |succeeded: i32, failed: i32| {
        json!({
            "metadata": {"name": "work", "uid": "j"}, "spec": {"template": {}},
            "status": {"succeeded": succeeded, "failed": failed},
        })
    };
    let pod = |uid: &str, phase: &str| {
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "work", "uid": "j", "controller": true});
        json!({"metadata": {"uid": uid, "ownerReferences": [owner]}, "status": {"phase": phase}})
    };
    let events = |more: &[(&str, Value)]| {
        let pods = [(JOB, job(0, 0)), (A, pod("1", "Succeeded")), (B, pod("2", "Running"))];
        check(&[&pods, more].concat()).unwrap_or_default()
    };
    assert_eq!(events(&[(JOB, job(1, 0)), (A, Value::Null), (B, Value::Null), (JOB, job(1, 1))]), "");
    assert!(
        events(&[(JOB, job(2, 0))]).contains("counts 2 succeeded and 0 failed pods; it had 2, of which 1 succeeded")
    );
    assert!(events(&[(JOB, job(1, 2))]).contains("counts 1 succeeded and 2 failed pods; it had 2"));
    assert!(events(&[(JOB, job(1, 0)), (JOB, job(0, 0))]).contains("and counted more before: (1, 0)"));
}
