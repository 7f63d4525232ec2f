//! Topology spread constraints: concepts/scheduling-eviction/topology-spread-constraints.

use super::{Tiny, node, pod, pod_of};
use crate::draw::{HOSTNAME, ZONE};
use scheduler_plugins::fixture::merge;
use serde_json::{Value, json};

fn spread(constraints: &[(&str, i32, Value)]) -> Value {
    let constraint = |(key, max_skew, extra): &(&str, i32, Value)| {
        let mut constraint = json!({"topologyKey": key, "maxSkew": max_skew, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}}});
        merge(&mut constraint, extra.clone());
        constraint
    };
    json!({"topologySpreadConstraints": constraints.iter().map(constraint).collect::<Vec<_>>()})
}

/// Zone a has a1 with two pods of web and a2 with none, zone b has b1 with one. One node is in no zone.
fn two_zones() -> Tiny {
    let nodes = vec![
        ("a1", node("a", json!({}))),
        ("a2", node("a", json!({}))),
        ("b1", node("b", json!({}))),
        ("none", node("a", json!({"metadata": {"labels": {ZONE: null}}}))),
    ];
    let web = || pod(json!({}));
    let mut elsewhere = web();
    elsewhere["metadata"]["namespace"] = json!("y");
    let mut leaving = web();
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let pods = vec![
        ("w1", "a1", web()),
        ("w2", "a1", web()),
        ("w3", "b1", web()),
        ("other", "b1", pod_of("db", json!({}))),
        ("elsewhere", "b1", elsewhere),
        ("leaving", "b1", leaving),
    ];
    Tiny { nodes, pods, ..Tiny::default() }
}

#[test]
fn which_domains_may_take_a_pod() {
    let no_extra = || json!({});
    let one = |key: &str, skew: i32, extra: Value| pod(spread(&[(key, skew, extra)]));
    let both = spread(&[(ZONE, 1, no_extra()), (HOSTNAME, 1, no_extra())]);
    two_zones().check_feasible(&[
        (
            "the skew of zone a would be 3 - 1; pods of other namespaces, labels, and those that end do not count",
            one(ZONE, 1, no_extra()),
            "b1",
        ),
        ("a skew of 2 is allowed", one(ZONE, 2, no_extra()), "a1 a2 b1"),
        ("a node without the label is no place", one(ZONE, 9, no_extra()), "a1 a2 b1"),
        ("by host, a2 and none have no pod", one(HOSTNAME, 1, no_extra()), "a2 none"),
        ("two constraints are combined with AND: zone b, and b1 has one more than a2", pod(both), ""),
        (
            "ScheduleAnyway rejects no node",
            one(ZONE, 1, json!({"whenUnsatisfiable": "ScheduleAnyway"})),
            "a1 a2 b1 none",
        ),
        ("with fewer domains than minDomains the least is 0: 1 + 1 > 1", one(ZONE, 1, json!({"minDomains": 3})), ""),
        ("and 1 + 1 <= 2", one(ZONE, 2, json!({"minDomains": 3})), "b1"),
        ("as many domains as minDomains", one(ZONE, 1, json!({"minDomains": 2})), "b1"),
    ]);
    let mut stranger = pod_of("db", spread(&[(ZONE, 1, no_extra())]));
    let says = "a pod that its own selector does not match adds nothing: 2 - 1";
    two_zones().check_feasible(&[(says, stranger.clone(), "a1 a2 b1")]);
    stranger["spec"]["nodeSelector"] = json!({ZONE: "a"});
    two_zones().check_feasible(&[("zones that the pod cannot reach do not count", stranger, "a1 a2")]);
}

#[test]
fn soft_constraints_score() {
    let soft = json!({"whenUnsatisfiable": "ScheduleAnyway"});
    let nodes = vec![("a1", node("a", json!({}))), ("b1", node("b", json!({}))), ("c1", node("c", json!({})))];
    let web = || pod(json!({}));
    let pods = vec![("w1", "a1", web()), ("w2", "a1", web()), ("w3", "b1", web())];
    // A domain counts its pods times ln(3 + 2): 3.2 and 1.6, and the least allowed skew of 1 less one. Rounded: 3, 2, 0.
    Tiny { nodes, pods, ..Tiny::default() }.check_scores(
        "PodTopologySpread",
        &[("fewer pods are better: (3 + 0 - n) of 3", pod(spread(&[(ZONE, 1, soft)])), "a1=0 b1=33 c1=100")],
    );
}
