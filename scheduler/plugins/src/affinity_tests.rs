//! Whole cycles with the arguments of InterPodAffinity, and the rules of spreading, worked by hand from the documentation.

use crate::fixture::{Objects, TestCluster, info, merge, node, pod, profile_of};
use scheduling_framework::CycleState;
use serde_json::{Value, json};

/// Returns the scores of InterPodAffinity by node; `None` if it has nothing to say.
fn affinity_scores(args: Value, existing: Value, spec: Value) -> Option<Vec<(String, i64)>> {
    let config = json!([{"name": "InterPodAffinity", "args": args}]);
    let profile = profile_of(&json!({"pluginConfig": config}), Objects::default());
    let mut cluster = TestCluster::with(profile, [node("n1", "a", json!({})), node("n2", "b", json!({}))]);
    cluster.place(pod("db-1", "1", existing), "n1");
    let decision = cluster.decide(&info(pod("web-1", "1", spec)), &mut CycleState::default()).unwrap();
    let found = decision.scores.iter().find(|it| it.plugin == "InterPodAffinity")?;
    let mut scores: Vec<(String, i64)> = cluster.names(&decision).into_iter().zip(found.scores.clone()).collect();
    scores.sort();
    Some(scores)
}

fn term(app: &str) -> Value {
    json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}})
}

fn required(app: &str) -> Value {
    json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(app)]}}})
}

fn preferred(app: &str, weight: i32) -> Value {
    let weighted = json!([{"weight": weight, "podAffinityTerm": term(app)}]);
    json!({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}})
}

/// "hardPodAffinityWeight is the scoring weight for existing pods with a matching hard affinity to the incoming pod."
#[test]
fn the_required_affinity_of_existing_pods_has_the_weight_of_the_arguments() {
    let scores = |weight: i32, spec: Value| {
        // The pod on n1 needs itself or a pod of web near it.
        let mut existing = required("web");
        merge(&mut existing, json!({"priority": 0}));
        affinity_scores(json!({"hardPodAffinityWeight": weight}), existing, spec)
    };
    let at = |n1: i64, n2: i64| Some(vec![("n1".to_owned(), n1), ("n2".to_owned(), n2)]);
    assert_eq!(scores(1, json!({})), at(100, 0));
    assert_eq!(scores(0, json!({})), None, "no weight, no score");
    // The pod's own dislike of db counts 10 against it: 20 is more than that, and 5 is less.
    let weighted = json!([{"weight": 10, "podAffinityTerm": term("db")}]);
    let dislikes =
        json!({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}});
    assert_eq!(scores(20, dislikes.clone()), at(100, 0));
    assert_eq!(scores(5, dislikes), at(0, 100));
}

/// "ignorePreferredTermsOfExistingPods configures the scheduler to ignore existing pods' preferred affinity rules when scoring
/// candidate nodes, unless the incoming pod has inter-pod affinities."
#[test]
fn preferences_of_existing_pods_may_be_ignored() {
    let scores = |ignores: bool, spec: Value| {
        affinity_scores(json!({"ignorePreferredTermsOfExistingPods": ignores}), preferred("web", 7), spec)
    };
    let at = |n1: i64, n2: i64| Some(vec![("n1".to_owned(), n1), ("n2".to_owned(), n2)]);
    assert_eq!(scores(false, json!({})), at(100, 0));
    assert_eq!(scores(true, json!({})), None);
    assert_eq!(scores(true, preferred("cache", 1)), at(100, 0), "the pod has a preference of its own");
}

/// Returns the nodes on which a pod of `app: web` with this constraint over zones fits. Zone a has two pods of web, zone b
/// has one, and zone c has none; c has a taint.
fn fitting(constraint: Value, spec: Value) -> String {
    let taint = json!({"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}});
    let nodes = [node("a1", "a", json!({})), node("b1", "b", json!({})), node("c1", "c", taint)];
    let mut cluster = TestCluster::new(nodes);
    for (name, node) in [("web-1", "a1"), ("web-2", "a1"), ("web-3", "b1")] {
        let mut old = pod(name, "0", json!({}));
        old["metadata"]["labels"]["version"] = json!(if name == "web-1" { "2" } else { "1" });
        cluster.place(old, node);
    }
    let mut whole = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}});
    merge(&mut whole, constraint);
    let mut new = pod("web-4", "0", json!({"topologySpreadConstraints": [whole]}));
    merge(&mut new["spec"], spec);
    new["metadata"]["labels"]["version"] = json!("2");
    match cluster.decide(&info(new), &mut CycleState::default()) {
        Ok(decision) => {
            let mut names = cluster.names(&decision);
            names.sort();
            names.join(" ")
        }
        Err(error) => error.to_string(),
    }
}

/// Skew is the number of matching pods in the domain, with the new one, less the least of all eligible domains.
#[test]
fn which_nodes_and_pods_count_for_a_constraint() {
    let none = json!({});
    let on_a_b = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]}}}});
    let tolerating = json!({"tolerations": [{"key": "gpu", "operator": "Exists"}]});
    let unfit = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) didn't match pod topology spread constraints.";
    for (row, (constraint, spec, expected)) in [
        // By default taints are ignored: c counts with 0, so b would have a skew of 2.
        (json!({}), &none, unfit),
        (json!({"maxSkew": 2}), &none, "b1"),
        (json!({"maxSkew": 3}), &none, "a1 b1"),
        // With Honor, c does not count for a pod that does not tolerate its taint. The least is 1, of b.
        (json!({"nodeTaintsPolicy": "Honor"}), &none, "b1"),
        (json!({"nodeTaintsPolicy": "Honor"}), &tolerating, "c1"),
        // By default node affinity is honoured: only a and b count.
        (json!({}), &on_a_b, "b1"),
        (json!({"nodeAffinityPolicy": "Ignore", "maxSkew": 2}), &on_a_b, "b1"),
        // Fewer domains than minDomains: the least is 0.
        (json!({"nodeTaintsPolicy": "Honor", "minDomains": 2}), &none, "b1"),
        (json!({"nodeTaintsPolicy": "Honor", "minDomains": 3, "maxSkew": 2}), &none, "b1"),
        (json!({"nodeTaintsPolicy": "Honor", "minDomains": 3, "maxSkew": 3}), &none, "a1 b1"),
        // Only pods of the same version count: a has one, b and c none.
        (json!({"matchLabelKeys": ["version"]}), &none, "b1"),
        (json!({"matchLabelKeys": ["version"], "maxSkew": 2}), &none, "a1 b1"),
        // A key that the pod does not have is ignored.
        (json!({"matchLabelKeys": ["color"], "maxSkew": 2}), &none, "b1"),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(fitting(constraint, spec.clone()), expected, "row {row}");
    }
}

/// The requests of a pod, by what it has: containers add up, an init container runs alone, a sidecar beside all that
/// follow; requests of the whole pod replace those sums, and overhead is added.
#[test]
fn a_pod_fits_where_its_requests_are_free() {
    let container = |cpu: &str| json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    let sidecar = |cpu: &str| {
        let mut sidecar = container(cpu);
        sidecar["restartPolicy"] = json!("Always");
        sidecar
    };
    for (row, (spec, cpu)) in [
        (json!({"containers": [container("1"), container("500m")]}), 1500),
        (json!({"containers": [container("1")], "initContainers": [container("2")]}), 2000),
        (json!({"containers": [container("1")], "initContainers": [sidecar("1"), container("2")]}), 3000),
        (json!({"containers": [container("1")], "initContainers": [container("2"), sidecar("500m")]}), 2000),
        (json!({"containers": [container("1")], "overhead": {"cpu": "250m"}}), 1250),
        (json!({"containers": [container("1")], "resources": {"requests": {"cpu": "3"}}}), 3000),
        (
            json!({"containers": [container("1")], "resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "1"}}),
            4000,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        for (allocatable, fits) in [(cpu, true), (cpu - 1, false)] {
            let size = json!({"status": {"allocatable": {"cpu": format!("{allocatable}m")}}});
            let mut cluster = TestCluster::new([node("n1", "a", size)]);
            let said = cluster.schedule(pod("p", "0", spec.clone()));
            assert_eq!(said == "p -> n1", fits, "row {row}: {said}");
        }
    }
}

/// A pod that is being resized takes the most of what it wants, has been given, and has, from those that come later.
#[test]
fn a_resize_keeps_its_space() {
    let with = |desired: &str, status: Value| {
        let mut cluster = TestCluster::new([node("n1", "a", json!({"status": {"allocatable": {"cpu": "4"}}}))]);
        let mut resized = pod("old", desired, json!({}));
        resized["status"] = status;
        cluster.place(resized, "n1");
        cluster.schedule(pod("new", "2", json!({})))
    };
    let reported = |cpu: &str| json!({"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": cpu}, "resources": {"requests": {"cpu": cpu}}}]});
    let mut infeasible = reported("1");
    infeasible["conditions"] = json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
    assert_eq!(with("1", reported("1")), "new -> n1");
    assert!(with("1", reported("3")).contains("Insufficient cpu"), "it has not shrunk yet");
    assert!(with("3", reported("1")).contains("Insufficient cpu"), "it will grow");
    assert_eq!(with("3", infeasible), "new -> n1", "it cannot grow on this node");
}
