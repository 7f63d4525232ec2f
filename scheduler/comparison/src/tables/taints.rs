//! Taints and tolerations: concepts/scheduling-eviction/taint-and-toleration.

use super::{Tiny, node, pod};
use serde_json::{Value, json};

fn taint(key: &str, value: &str, effect: &str) -> Value {
    json!({"key": key, "value": value, "effect": effect})
}

fn tainted(taints: &[Value]) -> Value {
    node("a", json!({"spec": {"taints": taints}}))
}

fn tolerating(tolerations: &[Value]) -> Value {
    pod(json!({"tolerations": tolerations}))
}

fn three_effects() -> Tiny {
    let nodes = vec![
        ("free", node("a", json!({}))),
        ("no-execute", tainted(&[taint("k", "v", "NoExecute")])),
        ("no-schedule", tainted(&[taint("k", "v", "NoSchedule")])),
        ("prefer-not", tainted(&[taint("k", "v", "PreferNoSchedule")])),
    ];
    Tiny { nodes, ..Tiny::default() }
}

#[test]
fn which_toleration_matches_which_taint() {
    let all = "free no-execute no-schedule prefer-not";
    three_effects().check_feasible(&[
        ("NoSchedule and NoExecute keep a pod away; PreferNoSchedule only tries to", pod(json!({})), "free prefer-not"),
        (
            "Equal needs the same key, value and effect",
            tolerating(&[json!({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"})]),
            "free no-schedule prefer-not",
        ),
        (
            "the operator is Equal if none is given",
            tolerating(&[json!({"key": "k", "value": "v", "effect": "NoExecute"})]),
            "free no-execute prefer-not",
        ),
        ("another value does not match", tolerating(&[json!({"key": "k", "value": "w"})]), "free prefer-not"),
        ("another key does not match", tolerating(&[json!({"key": "l", "value": "v"})]), "free prefer-not"),
        ("no value is an empty value", tolerating(&[json!({"key": "k"})]), "free prefer-not"),
        (
            "Exists needs no value",
            tolerating(&[json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"})]),
            "free no-schedule prefer-not",
        ),
        ("an empty effect matches all effects", tolerating(&[json!({"key": "k", "value": "v"})]), all),
        ("an empty key with Exists tolerates everything", tolerating(&[json!({"operator": "Exists"})]), all),
        (
            "an empty key with Exists and an effect tolerates all taints of the effect",
            tolerating(&[json!({"operator": "Exists", "effect": "NoExecute"})]),
            "free no-execute prefer-not",
        ),
    ]);
}

#[test]
fn taints_that_are_left_decide() {
    let three = tainted(&[taint("a", "1", "NoSchedule"), taint("a", "1", "NoExecute"), taint("b", "2", "NoSchedule")]);
    let soft = tainted(&[taint("a", "1", "NoSchedule"), taint("b", "2", "PreferNoSchedule")]);
    let nodes = vec![("soft", soft), ("three", three)];
    let both_of_a = [
        json!({"key": "a", "operator": "Equal", "value": "1", "effect": "NoSchedule"}),
        json!({"key": "a", "operator": "Equal", "value": "1", "effect": "NoExecute"}),
    ];
    Tiny { nodes, ..Tiny::default() }.check_feasible(&[
        ("the third taint is not tolerated", tolerating(&both_of_a), "soft"),
        ("nothing tolerated", pod(json!({})), ""),
        (
            "one toleration for each",
            tolerating(&[both_of_a[0].clone(), both_of_a[1].clone(), json!({"key": "b", "operator": "Exists"})]),
            "soft three",
        ),
    ]);
}

#[test]
fn a_cordoned_node_takes_no_new_pods() {
    let cordoned = node("a", json!({"spec": {"unschedulable": true}}));
    let nodes = vec![("cordoned", cordoned), ("open", node("a", json!({})))];
    let toleration = json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"});
    Tiny { nodes, ..Tiny::default() }.check_feasible(&[
        ("cordon marks a node as unschedulable for new pods", pod(json!({})), "open"),
        ("pods of a DaemonSet tolerate the taint of a cordoned node", tolerating(&[toleration]), "cordoned open"),
    ]);
}

/// The fewer soft taints are not tolerated, the better.
#[test]
fn soft_taints_score() {
    let soft = |key: &str| taint(key, "", "PreferNoSchedule");
    let nodes =
        vec![("none", node("a", json!({}))), ("one", tainted(&[soft("a")])), ("two", tainted(&[soft("a"), soft("b")]))];
    let exists = |key: &str| tolerating(&[json!({"key": key, "operator": "Exists"})]);
    Tiny { nodes, ..Tiny::default() }.check_scores(
        "TaintToleration",
        &[
            ("two are the most", pod(json!({})), "none=100 one=50 two=0"),
            ("tolerated ones do not count", exists("a"), "none=100 one=100 two=0"),
            ("a toleration of b", exists("b"), "none=100 one=0 two=0"),
            (
                "only tolerations of soft taints count",
                tolerating(&[json!({"operator": "Exists", "effect": "NoSchedule"})]),
                "none=100 one=50 two=0",
            ),
        ],
    );
}
