//! Preemption: concepts/scheduling-eviction/pod-priority-preemption.

use super::{Tiny, cpu, node, pod, pod_of};
use crate::draw::{HOSTNAME, ZONE};
use scheduler_plugins::fixture::merge;
use serde_json::{Value, json};

/// Returns a pod of an app with a priority and a request.
fn with_priority(app: &str, priority: i32, amount: &str) -> Value {
    let mut pod = pod_of(app, cpu(amount));
    pod["spec"]["priority"] = json!(priority);
    pod
}

fn started(mut pod: Value, second: u8) -> Value {
    pod["status"] = json!({"startTime": format!("2026-01-01T00:00:0{second}Z")});
    pod
}

fn with_spec(mut pod: Value, spec: Value) -> Value {
    merge(&mut pod["spec"], spec);
    pod
}

/// Two nodes of 4 cores with these pods.
fn two_nodes(pods: Vec<(&'static str, &'static str, Value)>) -> Tiny {
    Tiny { nodes: vec![("n1", node("a", json!({}))), ("n2", node("a", json!({})))], pods, ..Tiny::default() }
}

fn budget(app: &str, allowed: i32) -> Value {
    json!({"metadata": {"namespace": "x", "name": app},
        "spec": {"selector": {"matchLabels": {"app": app}}}, "status": {"disruptionsAllowed": allowed}})
}

fn check(rows: Vec<(&str, Tiny, Value, &str)>) {
    for (says, tiny, pod, expected) in rows {
        assert_eq!(tiny.decide(says, pod).victims(), expected, "{says}");
    }
}

#[test]
fn who_may_preempt_whom() {
    let full = || two_nodes(vec![("a", "n1", with_priority("a", 5, "4")), ("b", "n2", with_priority("b", 10, "4"))]);
    let high = |priority: i32| with_priority("web", priority, "1");
    check(vec![
        ("only pods of lower priority are victims", full(), high(10), "n1 without a"),
        ("pods of the same priority are not", full(), high(5), ""),
        (
            "a pod with preemptionPolicy Never waits",
            full(),
            with_spec(high(10), json!({"preemptionPolicy": "Never"})),
            "",
        ),
        ("no victim makes an empty node large enough", full(), with_priority("web", 10, "5"), ""),
        (
            "nor tolerates its taint",
            {
                let mut tiny = full();
                tiny.nodes[0].1["spec"] = json!({"taints": [{"key": "k", "effect": "NoSchedule"}]});
                tiny
            },
            high(10),
            "",
        ),
        (
            "negative priorities are priorities",
            two_nodes(vec![("a", "n1", with_priority("a", -5, "4")), ("b", "n2", with_priority("b", 0, "4"))]),
            high(-1),
            "n1 without a",
        ),
    ]);
}

#[test]
fn as_few_pods_as_possible_leave() {
    let high = || with_priority("web", 10, "2");
    let one_node = |pods| Tiny { nodes: vec![("n1", node("a", json!({})))], pods, ..Tiny::default() };
    check(vec![
        (
            "pods that may stay do, the most important first",
            one_node(vec![
                ("a", "n1", with_priority("a", 1, "1")),
                ("b", "n1", with_priority("b", 2, "1")),
                ("c", "n1", with_priority("c", 3, "2")),
            ]),
            high(),
            "n1 without b a",
        ),
        (
            "of equal ones those stay that have run longest",
            one_node(vec![
                ("a", "n1", started(with_priority("a", 1, "2"), 1)),
                ("b", "n1", started(with_priority("b", 1, "2"), 2)),
            ]),
            high(),
            "n1 without b",
        ),
        (
            "pods that are smaller and lower stay too",
            one_node(vec![("a", "n1", with_priority("a", 1, "3")), ("b", "n1", with_priority("b", 0, "1"))]),
            high(),
            "n1 without a",
        ),
    ]);
}

#[test]
fn which_node_costs_the_least() {
    let high = || with_priority("web", 10, "4");
    let of = |priority: i32| with_priority("low", priority, "2");
    let protected = |allowed: i32| {
        let mut tiny =
            two_nodes(vec![("a", "n1", with_priority("a", 1, "4")), ("b", "n2", with_priority("b", 2, "4"))]);
        tiny.world.budgets = vec![budget("a", allowed)];
        tiny
    };
    check(vec![
        (
            "the budget of a is kept if another node helps, though b is more important",
            protected(0),
            high(),
            "n2 without b",
        ),
        ("a budget that allows one disruption costs nothing", protected(1), high(), "n1 without a"),
        (
            "a budget is no guarantee",
            {
                let mut tiny = protected(0);
                tiny.pods[1].2 = with_priority("b", 10, "4");
                tiny
            },
            high(),
            "n1 without a",
        ),
        (
            "the lowest highest priority",
            two_nodes(vec![("a", "n1", of(5)), ("b", "n1", of(1)), ("c", "n2", of(4)), ("d", "n2", of(4))]),
            high(),
            "n2 without c d",
        ),
        (
            "then the lowest sum of priorities",
            two_nodes(vec![("a", "n1", of(5)), ("b", "n1", of(1)), ("c", "n2", of(5)), ("d", "n2", of(2))]),
            high(),
            "n1 without a b",
        ),
        (
            "then the one whose most important victims started last",
            two_nodes(vec![
                ("a", "n1", started(with_priority("a", 5, "4"), 1)),
                ("b", "n2", started(with_priority("b", 5, "4"), 2)),
            ]),
            high(),
            "n2 without b",
        ),
        (
            "of equal nodes any",
            two_nodes(vec![
                ("a", "n1", started(with_priority("a", 5, "4"), 1)),
                ("b", "n2", started(with_priority("b", 5, "4"), 1)),
            ]),
            high(),
            "n1 without a or n2 without b",
        ),
    ]);
}

#[test]
fn protected_pods_are_spared_first() {
    let mut tiny = two_nodes(vec![
        ("a", "n1", with_priority("a", 1, "2")),
        ("b", "n1", with_priority("b", 5, "2")),
        ("c", "n2", with_priority("c", 10, "4")),
    ]);
    tiny.world.budgets = vec![budget("a", 0)];
    check(vec![("a has a budget, and b is more important", tiny, with_priority("web", 10, "2"), "n1 without b")]);
}

#[test]
fn affinity_to_victims_and_across_nodes() {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let term = |app: &str, key: &str| json!([{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]);
    let near = |app: &str, key: &str| json!({"affinity": {"podAffinity": {required: term(app, key)}}});
    let apart = |app: &str, key: &str| json!({"affinity": {"podAntiAffinity": {required: term(app, key)}}});
    let tiny = || two_nodes(vec![("a", "n1", with_priority("a", 1, "4")), ("b", "n2", with_priority("b", 10, "4"))]);
    let high = |spec: Value| with_spec(with_priority("web", 10, "1"), spec);
    check(vec![
        ("a pod does not preempt those that it has affinity to", tiny(), high(near("a", HOSTNAME)), ""),
        ("affinity to a pod that stays", tiny(), high(near("b", ZONE)), "n1 without a"),
        ("anti-affinity to a victim of the node", tiny(), high(apart("a", HOSTNAME)), "n1 without a"),
        ("pods of other nodes are not preempted: b keeps the pod out of the zone", tiny(), high(apart("b", ZONE)), ""),
    ]);
}

/// The space of a pod with a nominated node is kept for it, and a pod of higher priority may take it.
#[test]
fn nominated_pods_keep_their_space() {
    let tiny = || Tiny {
        nodes: vec![("n1", node("a", json!({})))],
        pods: vec![("a", "n1", with_priority("a", 1, "4"))],
        ..Tiny::default()
    };
    let after_nomination = |says: &str, priority: i32| {
        let mut both = tiny().both();
        let first = both.schedule("first", with_priority("web", 10, "3")).unwrap();
        assert_eq!(first.victims(), "n1 without a", "{says}");
        both.schedule("second", with_priority("web", priority, "2"))
            .unwrap_or_else(|it| panic!("{says}\n{it}"))
            .feasible()
    };
    for (says, priority, expected) in [
        ("a lower one does not fit beside the nominated pod", 5, ""),
        ("an equal one neither", 10, ""),
        ("a higher one may take the space", 11, "n1"),
    ] {
        assert_eq!(after_nomination(says, priority), expected, "{says}");
    }
}

#[test]
fn a_claim_for_one_pod_is_freed_by_preemption() {
    let mut tiny = two_nodes(Vec::new());
    let claim = json!({"metadata": {"namespace": "x", "name": "c", "uid": "c",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"accessModes": ["ReadWriteOncePod"], "volumeName": "v"}});
    let volume = json!({"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOncePod"], "capacity": {"storage": "1Gi"},
        "csi": {"driver": "disks.example.com", "volumeHandle": "v"}}});
    (tiny.world.claims, tiny.world.volumes) = (vec![claim], vec![volume]);
    let volumes = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]});
    tiny.pods.push(("a", "n1", with_spec(with_priority("a", 1, "0"), volumes.clone())));
    let says = "ReadWriteOncePod: only one pod of the cluster uses the claim, and a higher priority takes it over";
    let new = with_spec(pod(volumes), json!({"priority": 5}));
    check(vec![(says, tiny, new, "n1 without a")]);
}
