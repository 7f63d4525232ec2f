//! Each rule on histories that keep it and on ones that break it.

use super::Safety;
use crate::simulation::verdict::Verdict;
use apiserver::storage::{Entry, Event};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

/// Judges objects in order (`null`: gone) and returns the first complaint.
fn judge(events: &[(&str, Value)]) -> Option<String> {
    let verdict = Verdict::default();
    let mut safety = Safety::new(&verdict);
    for (revision, (key, value)) in (2..).zip(events) {
        let entry = (!value.is_null()).then(|| Entry {
            key: (*key).into(),
            value: value.to_string().into(),
            create_revision: revision,
            mod_revision: revision,
        });
        let event = Event { revision, key: (*key).into(), current: entry, previous: None };
        safety.judge(&Arc::new(event), Timestamp::UNIX_EPOCH);
    }
    verdict.violations().first().map(|violation| violation.what.clone())
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
    assert_eq!(judge(&[(N, node("n")), (A, pod("1", "", "1", "")), (A, one.clone()), (A, one.clone())]), None);
    let rebound = judge(&[(A, one.clone()), (A, pod("1", "m", "1", ""))]).unwrap();
    assert!(rebound.contains("was bound to n and now is to \"m\""), "{rebound}");
    let crowded = judge(&[(N, node("n")), (A, one.clone()), (B, two.clone())]).unwrap();
    assert!(crowded.contains("has 2000 thousandths of cpu and promised 2100"), "{crowded}");
    let mut ended = one.clone();
    ended["status"]["phase"] = json!("Succeeded");
    assert_eq!(judge(&[(N, node("n")), (A, one.clone()), (A, ended), (B, two.clone())]), None);
    assert_eq!(judge(&[(N, node("n")), (A, one), (A, Value::Null), (B, two)]), None);
    let small = |uid: &str| pod(uid, "n", "1m", "");
    let many = judge(&[(N, node("n")), (A, small("1")), (B, small("2")), (C, small("3"))]).unwrap();
    assert!(many.contains("thousandths of pods"), "{many}");
}

#[test]
fn addresses() {
    let first = pod("1", "n", "1", "10.0.0.1");
    let twice = judge(&[(A, first.clone()), (B, pod("2", "m", "1", "10.0.0.1"))]).unwrap();
    assert!(twice.contains("has address 10.0.0.1, which"), "{twice}");
    assert_eq!(judge(&[(A, first), (A, Value::Null), (B, pod("2", "m", "1", "10.0.0.1"))]), None);
    let service = |uid: &str, ip: &str, port: u16| {
        let ports = json!([{"port": 80, "nodePort": port, "protocol": "TCP"}]);
        json!({"metadata": {"uid": uid}, "spec": {"clusterIPs": [ip], "ports": ports}})
    };
    let key = |name: &str| format!("/registry/services/specs/default/{name}");
    let both = |second: Value| judge(&[(&key("x"), service("1", "10.96.0.9", 30000)), (&key("y"), second)]);
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
    assert_eq!(judge(&[(key, object("1", 1, false)), (key, Value::Null), (key, object("2", 1, false))]), None);
    let cases = [
        ([(key, object("1", 1, false)), (key, object("2", 1, false))], "became another object"),
        ([(key, object("1", 1, false)), (other, object("1", 1, false))], "has the uid 1 that"),
        ([(key, object("1", 1, true)), (key, object("1", 1, false))], "came back from its deletion"),
        ([(key, object("1", 2, false)), (key, object("1", 1, false))], "generation of"),
    ];
    for (events, complaint) in cases {
        let found = judge(&events).unwrap();
        assert!(found.contains(complaint), "{found}");
    }
}

#[test]
fn rollouts() {
    let deployment = json!({
        "metadata": {"uid": "d", "labels": {"steady": ""}},
        "spec": {"replicas": 4, "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}},
    });
    let owned = |uid: &str, by: &str| json!({"uid": uid, "ownerReferences": [{"uid": by, "controller": true}]});
    let set = |uid: &str, replicas: i64| json!({"metadata": owned(uid, "d"), "spec": {"replicas": replicas}});
    let pod = |uid: &str, deleting: bool| {
        let mut pod =
            json!({"metadata": owned(uid, "r1"), "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        if deleting {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        pod
    };
    let (d, r1, r2) =
        ("/registry/deployments/default/d", "/registry/replicasets/default/r1", "/registry/replicasets/default/r2");
    let p = |n: u32| format!("/registry/pods/default/p{n}");
    let begin = || vec![(d.to_owned(), deployment.clone()), (r1.to_owned(), set("r1", 4))];
    let run = |more: Vec<(String, Value)>| {
        let all = begin().into_iter().chain(more);
        let all: Vec<(String, Value)> = all.collect();
        judge(&all.iter().map(|(key, value)| (key.as_str(), value.clone())).collect::<Vec<_>>())
    };
    assert_eq!(run(vec![(r2.to_owned(), set("r2", 1))]), None);
    let surge = run(vec![(r2.to_owned(), set("r2", 2))]).unwrap();
    assert!(surge.contains("6 pods in all, where 5 is the most"), "{surge}");
    let four: Vec<(String, Value)> = (0..4).map(|n| (p(n), pod(&format!("p{n}"), false))).collect();
    let without = |gone: u32| {
        let gone = (0..gone).map(|n| (p(n), pod(&format!("p{n}"), true)));
        run(four.iter().cloned().chain(gone).collect())
    };
    assert_eq!(without(1), None);
    let few = without(2).unwrap();
    assert!(few.contains("2 pods serve, where 3 is the least"), "{few}");
}
