//! Node affinity, and affinity and anti-affinity between pods: concepts/scheduling-eviction/assign-pod-node.

use super::{Tiny, node, pod, pod_of};
use crate::draw::{HOSTNAME, ZONE};
use scheduler_plugins::fixture::merge;
use serde_json::{Value, json};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": operator, "values": values})
}

/// Returns a spec with terms of required node affinity, each of expressions.
fn terms(terms: &[&[Value]]) -> Value {
    let terms: Vec<Value> = terms.iter().map(|all| json!({"matchExpressions": all})).collect();
    json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}})
}

fn labelled() -> Tiny {
    let of = |labels: Value| node("a", json!({"metadata": {"labels": labels}}));
    let nodes = vec![
        ("big", of(json!({"disk": "ssd", "cores": "16"}))),
        ("plain", of(json!({}))),
        ("small", of(json!({"disk": "hdd", "cores": "4"}))),
    ];
    Tiny { nodes, ..Tiny::default() }
}

#[test]
fn required_node_affinity() {
    let ssd = expression("disk", "In", &["ssd"]);
    let with_selector = |mut spec: Value| {
        spec["nodeSelector"] = json!({"disk": "ssd"});
        pod(spec)
    };
    let by_name = |operator: &str| {
        let field = json!({"key": "metadata.name", "operator": operator, "values": ["plain"]});
        pod(json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [field]}]}}}}))
    };
    let one = |it: Value| pod(terms(&[&[it]]));
    labelled().check_feasible(&[
        ("nodeSelector needs each of the labels", with_selector(json!({})), "big"),
        ("In", one(ssd.clone()), "big"),
        ("In with several values", one(expression("disk", "In", &["ssd", "hdd"])), "big small"),
        ("NotIn matches a node without the label", one(expression("disk", "NotIn", &["ssd"])), "plain small"),
        ("Exists", one(expression("disk", "Exists", &[])), "big small"),
        ("DoesNotExist", one(expression("disk", "DoesNotExist", &[])), "plain"),
        ("Gt compares integers", one(expression("cores", "Gt", &["4"])), "big"),
        ("Lt compares integers, 16 is not less than 5", one(expression("cores", "Lt", &["5"])), "small"),
        (
            "terms are combined with OR",
            pod(terms(&[std::slice::from_ref(&ssd), &[expression("cores", "Lt", &["5"])]])),
            "big small",
        ),
        ("expressions of a term are combined with AND", pod(terms(&[&[ssd, expression("cores", "Lt", &["5"])]])), ""),
        (
            "nodeSelector and nodeAffinity must both be satisfied",
            with_selector(terms(&[&[expression("disk", "In", &["hdd"])]])),
            "",
        ),
        ("a field names the node", by_name("In"), "plain"),
        ("all nodes but the named one", by_name("NotIn"), "big small"),
        ("a term without expressions matches nothing", pod(terms(&[&[]])), ""),
        ("a key that no node has", one(expression("none", "In", &["x"])), ""),
        ("a number that is none", one(expression("disk", "Gt", &["1"])), ""),
    ]);
}

#[test]
fn preferred_node_affinity() {
    let preference = |weight: i32, it: Value| json!({"weight": weight, "preference": {"matchExpressions": [it]}});
    let preferring = |all: &[Value]| pod(json!({"affinity": {"nodeAffinity": {PREFERRED: all}}}));
    let ssd = preference(1, expression("disk", "In", &["ssd"]));
    let labelled_disk = preference(50, expression("disk", "Exists", &[]));
    labelled().check_scores(
        "NodeAffinity",
        &[
            ("without a preference there is no score", pod(json!({})), "none"),
            (
                "the weights of the preferences that a node has are added",
                preferring(std::slice::from_ref(&ssd)),
                "big=100 plain=0 small=0",
            ),
            ("51 and 50 of 51", preferring(&[ssd.clone(), labelled_disk]), "big=100 plain=0 small=98"),
            (
                "huge weights keep their proportions",
                preferring(&[
                    preference(100, expression("disk", "Exists", &[])),
                    preference(100, expression("cores", "Gt", &["8"])),
                ]),
                "big=100 plain=0 small=50",
            ),
        ],
    );
}

/// Returns a term about pods of an app within a topology.
fn term(app: &str, key: &str, extra: Value) -> Value {
    let mut term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}});
    merge(&mut term, extra);
    term
}

fn near(terms: &[Value]) -> Value {
    json!({"affinity": {"podAffinity": {REQUIRED: terms}}})
}

fn apart(terms: &[Value]) -> Value {
    json!({"affinity": {"podAntiAffinity": {REQUIRED: terms}}})
}

/// The database is on a1, a cache of the namespace y is on b1, and the node c1 has no zone.
fn with_database() -> Tiny {
    let nodes = vec![
        ("a1", node("a", json!({}))),
        ("a2", node("a", json!({}))),
        ("b1", node("b", json!({}))),
        ("c1", node("c", json!({"metadata": {"labels": {ZONE: null}}}))),
    ];
    let mut cache = pod_of("cache", json!({}));
    cache["metadata"]["namespace"] = json!("y");
    let mut database = pod_of("db", json!({}));
    database["metadata"]["labels"]["version"] = json!("1");
    Tiny { nodes, pods: vec![("db", "a1", database), ("cache", "b1", cache)], ..Tiny::default() }
}

#[test]
fn required_affinity_between_pods() {
    let none = || json!({});
    let of_version = |version: &str, spec: Value| {
        let mut pod = pod(spec);
        pod["metadata"]["labels"]["version"] = json!(version);
        pod
    };
    let by_version = |key: &str| term("db", ZONE, json!({key: ["version"]}));
    let blue = json!({"namespaceSelector": {"matchLabels": {"team": "blue"}}});
    with_database().check_feasible(&[
        ("in the same zone as a pod of db", pod(near(&[term("db", ZONE, none())])), "a1 a2"),
        ("on the same node", pod(near(&[term("db", HOSTNAME, none())])), "a1"),
        ("a term is about the pod's own namespace", pod(near(&[term("cache", ZONE, none())])), ""),
        ("or about those that it lists", pod(near(&[term("cache", ZONE, json!({"namespaces": ["y"]}))])), "b1"),
        ("or whose labels it selects", pod(near(&[term("cache", ZONE, blue.clone())])), "b1"),
        (
            "an empty namespace selector matches all namespaces",
            pod(near(&[term("cache", ZONE, json!({"namespaceSelector": {}}))])),
            "b1",
        ),
        (
            "a list and a selector are joined",
            pod(near(&[term("db", ZONE, {
                let mut both = blue.clone();
                both["namespaces"] = json!(["x"]);
                both
            })])),
            "a1 a2",
        ),
        (
            "all terms must be satisfied, each by any pod",
            pod(near(&[term("db", ZONE, none()), term("cache", ZONE, blue.clone())])),
            "",
        ),
        ("a topology key that no node has", pod(near(&[term("db", "unknown", none())])), ""),
        ("the first of a group fits wherever the key is", pod(near(&[term("web", ZONE, none())])), "a1 a2 b1"),
        (
            "not if another term is about others",
            pod(near(&[term("web", ZONE, none()), term("none", ZONE, none())])),
            "",
        ),
        ("a selector without any pod, and not the pod itself", pod(near(&[term("none", ZONE, none())])), ""),
        ("matchLabelKeys adds the pod's own values", of_version("1", near(&[by_version("matchLabelKeys")])), "a1 a2"),
        ("which db does not have", of_version("2", near(&[by_version("matchLabelKeys")])), ""),
        ("mismatchLabelKeys excludes them", of_version("2", near(&[by_version("mismatchLabelKeys")])), "a1 a2"),
        ("and db has the same version", of_version("1", near(&[by_version("mismatchLabelKeys")])), ""),
        (
            "affinity and anti-affinity that contradict each other",
            {
                let mut spec = near(&[term("db", HOSTNAME, none())]);
                merge(&mut spec, apart(&[term("db", HOSTNAME, none())]));
                pod(spec)
            },
            "",
        ),
    ]);
}

#[test]
fn required_anti_affinity_between_pods() {
    let none = || json!({});
    with_database().check_feasible(&[
        (
            "not in a zone with a pod of db; a node in no zone is in none of them",
            pod(apart(&[term("db", ZONE, none())])),
            "b1 c1",
        ),
        ("not on a node with one", pod(apart(&[term("db", HOSTNAME, none())])), "a2 b1 c1"),
        (
            "no term may be violated",
            pod(apart(&[term("db", ZONE, none()), term("cache", ZONE, json!({"namespaceSelector": {}}))])),
            "c1",
        ),
        ("of the own namespace only", pod(apart(&[term("cache", ZONE, none())])), "a1 a2 b1 c1"),
        ("an unknown key separates nothing", pod(apart(&[term("db", "unknown", none())])), "a1 a2 b1 c1"),
    ]);
    let mut tiny = with_database();
    tiny.pods.push(("hermit", "b1", pod_of("hermit", apart(&[term("web", ZONE, none())]))));
    tiny.check_feasible(&[
        ("a pod that is there keeps others away", pod(json!({})), "a1 a2 c1"),
        ("if it is about them", pod_of("db", json!({})), "a1 a2 b1 c1"),
    ]);
}

#[test]
fn preferred_affinity_between_pods() {
    let weighted = |weight: i32, term: Value| json!({"weight": weight, "podAffinityTerm": term});
    let near = |all: &[Value]| json!({"affinity": {"podAffinity": {PREFERRED: all}}});
    let apart = |all: &[Value]| json!({"affinity": {"podAntiAffinity": {PREFERRED: all}}});
    let db = || term("db", ZONE, json!({}));
    let cache = || term("cache", ZONE, json!({"namespaceSelector": {}}));
    let mut both = near(&[weighted(50, db())]);
    merge(&mut both, apart(&[weighted(100, cache())]));
    with_database().check_scores(
        "InterPodAffinity",
        &[
            ("no preference, no score", pod(json!({})), "none"),
            ("the zone of db", pod(near(&[weighted(1, db())])), "a1=100 a2=100 b1=0 c1=0"),
            (
                "the weights of the matching terms are added: 20 and 80",
                pod(near(&[weighted(20, db()), weighted(80, cache())])),
                "a1=25 a2=25 b1=100 c1=0",
            ),
            (
                "anti-affinity is subtracted: the least, -50, is 0",
                pod(apart(&[weighted(50, db())])),
                "a1=0 a2=0 b1=100 c1=100",
            ),
            ("from -100 over 0 to 50", pod(both), "a1=100 a2=100 b1=0 c1=66"),
        ],
    );
}
