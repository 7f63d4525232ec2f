//! Requests, node names and host ports: concepts/configuration/manage-resources-containers, pod-overhead, and
//! concepts/workloads/pods/sidecar-containers.

use super::{Tiny, cpu, node, pod};
use serde_json::{Value, json};

fn sizes() -> Tiny {
    let of = |cpu: &str, pods: &str| {
        node("a", json!({"status": {"allocatable": {"cpu": cpu, "pods": pods, "example.com/gpu": "2"}}}))
    };
    let nodes = vec![("full", of("8", "1")), ("large", of("4", "9")), ("small", of("1", "9"))];
    let pods = vec![("a", "full", pod(json!({}))), ("b", "large", pod(cpu("1500m")))];
    Tiny { nodes, pods, ..Tiny::default() }
}

fn containers(containers: &[Value], init: &[Value]) -> Value {
    pod(json!({"containers": containers, "initContainers": init}))
}

fn wants(requests: Value) -> Value {
    json!({"name": "c", "resources": {"requests": requests}})
}

#[test]
fn requests_have_to_be_free() {
    let sidecar = || json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}});
    let one = || wants(json!({"cpu": "1"}));
    sizes().check_feasible(&[
        ("a node has room for as many pods as it allows", pod(json!({})), "large small"),
        ("the sum of the requests must not exceed the capacity", pod(cpu("1")), "large small"),
        ("a thousandth more than is free", pod(cpu("1001m")), "large"),
        ("exactly what is free", pod(cpu("2500m")), "large"),
        ("more than any node has free", pod(cpu("2501m")), ""),
        ("containers add up", containers(&[one(), one()], &[]), "large"),
        ("the largest init container or the sum of the others", containers(&[one()], &[one()]), "large small"),
        ("a larger init container", containers(&[one()], &[wants(json!({"cpu": "3"}))]), ""),
        ("a sidecar runs beside the containers", containers(&[one()], &[sidecar()]), "large"),
        (
            "a sidecar runs beside init containers that come later",
            containers(&[], &[sidecar(), wants(json!({"cpu": "2"}))]),
            "",
        ),
        (
            "and not beside those that come earlier",
            containers(&[one()], &[wants(json!({"cpu": "2"})), sidecar()]),
            "large",
        ),
        ("overhead is added", pod(json!({"containers": [one()], "overhead": {"cpu": "1m"}})), "large"),
        (
            "requests of the pod replace those of its containers",
            pod(json!({"containers": [one()], "resources": {"requests": {"cpu": "2500m"}}})),
            "large",
        ),
        (
            "extended resources are counted",
            pod(json!({"containers": [wants(json!({"example.com/gpu": "2"}))]})),
            "large small",
        ),
        ("and do not exceed what there is", pod(json!({"containers": [wants(json!({"example.com/gpu": "3"}))]})), ""),
        ("a resource that no node has", pod(json!({"containers": [wants(json!({"example.com/fpga": "1"}))]})), ""),
    ]);
}

#[test]
fn a_node_name_and_host_ports_exclude_nodes() {
    let port = |number: i32, protocol: &str, address: &str| {
        json!({"containers": [{"name": "c",
            "ports": [{"containerPort": 80, "hostPort": number, "protocol": protocol, "hostIP": address}]}]})
    };
    let nodes = vec![("n1", node("a", json!({}))), ("n2", node("a", json!({})))];
    let pods = vec![("old", "n1", pod(port(80, "TCP", "10.0.0.1")))];
    Tiny { nodes, pods, ..Tiny::default() }.check_feasible(&[
        ("the combination of address, port and protocol must be free", pod(port(80, "TCP", "10.0.0.1")), "n2"),
        ("another protocol", pod(port(80, "UDP", "10.0.0.1")), "n1 n2"),
        ("another address", pod(port(80, "TCP", "10.0.0.2")), "n1 n2"),
        ("no address means all addresses", pod(port(80, "TCP", "")), "n2"),
        ("another port", pod(port(81, "TCP", "")), "n1 n2"),
        ("no protocol means TCP", pod(port(80, "", "0.0.0.0")), "n2"),
    ]);
}

/// Sums that are larger than 64 bits: the pod fits nowhere, and the node is full.
#[test]
fn sums_that_are_too_large() {
    let of = |memory: &str| node("a", json!({"status": {"allocatable": {"memory": memory}}}));
    let exabytes = |count: usize| {
        let one = wants(json!({"memory": "5E"}));
        pod(json!({"containers": vec![one; count]}))
    };
    let mut tiny = Tiny { nodes: vec![("huge", of("9E")), ("small", of("8Gi"))], ..Tiny::default() };
    tiny.check_feasible(&[
        ("5E are less than 9E", exabytes(1), "huge"),
        ("10E are more than a number can be", exabytes(2), ""),
    ]);
    tiny.check_scores("NodeResourcesFit", &[("nothing is used of either", pod(json!({})), "huge=98 small=97")]);
    let pods = vec![("a", "huge", exabytes(2)), ("b", "huge", exabytes(1))];
    tiny.pods = pods;
    tiny.check_feasible(&[(
        "a full node takes no more",
        pod(json!({"containers": [wants(json!({"memory": "1Mi"}))]})),
        "small",
    )]);
    let mut both = tiny.both();
    both.remove("a");
    let outcome = both.schedule("new", exabytes(1)).unwrap();
    assert_eq!(outcome.feasible(), "", "b has 5E");
    both.remove("b");
    assert_eq!(both.schedule("newer", exabytes(1)).unwrap().feasible(), "huge", "all have left");
}

/// The fewer requests a node has, the better; balance counts both resources.
#[test]
fn free_nodes_score() {
    let nodes = vec![("n1", node("a", json!({}))), ("n2", node("a", json!({})))];
    let pods = vec![("old", "n2", pod(json!({"containers": [wants(json!({"cpu": "1", "memory": "2Gi"}))]})))];
    let tiny = Tiny { nodes, pods, ..Tiny::default() };
    let new = pod(json!({"containers": [wants(json!({"cpu": "1", "memory": "2Gi"}))]}));
    tiny.check_scores("NodeResourcesFit", &[("a quarter or a half is used", new, "n1=75 n2=50")]);
}
