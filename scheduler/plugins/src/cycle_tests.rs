//! Tests decisions on small clusters.

use crate::fixture::{Objects, TestCluster, node, pod, profile};
use expect_test::{Expect, expect};
use proto::Kind;
use scheduling_framework::cycle::Rotation;
use scheduling_framework::{CycleState, Profile};
use serde_json::{Value, json};

fn check(lines: impl IntoIterator<Item = String>, expected: &Expect) {
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    expected.assert_eq(&text);
}

fn three() -> TestCluster {
    TestCluster::new([node("n1", "a", json!({})), node("n2", "a", json!({})), node("n3", "b", json!({}))])
}

#[test]
fn pods_go_where_there_is_most_room() {
    let mut cluster = three();
    cluster.place(pod("old", "2", json!({})), "n1");
    let pods = (1..=5).map(|n| pod(&format!("web-{n}"), "1", json!({})));
    let lines: Vec<String> = pods.map(|pod| cluster.schedule(pod)).collect();
    check(
        lines,
        &expect![[r#"
        web-1 -> n2
        web-2 -> n3
        web-3 -> n2
        web-4 -> n3
        web-5 -> n2
    "#]],
    );
}

#[test]
fn every_filter_has_its_reason() {
    let gpu = json!({"status": {"allocatable": {"example.com/gpu": "1"}}});
    let mut cluster = TestCluster::new([
        node("cordoned", "a", json!({"spec": {"unschedulable": true}})),
        node("tainted", "a", json!({"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}})),
        node("gpu", "a", gpu),
        node("full", "b", json!({"status": {"allocatable": {"pods": "0"}}})),
        node("tiny", "b", json!({"status": {"allocatable": {"cpu": "100m", "memory": "1Mi"}}})),
    ]);
    let ports = |port: i32| json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": port}]}]});
    cluster.place(pod("holder", "0", ports(80)), "gpu");
    let by_label = |key: &str, operator: &str| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": key, "operator": operator}]}]}}}})
    };
    let by_name = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["tiny"]}]}]}}}});
    let claims = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]});
    let devices = json!({"resourceClaims": [{"name": "d", "resourceClaimName": "d"}]});
    let wants = |resource: &str| json!({"containers": [{"name": "c", "resources": {"requests": {"memory": "1Gi", (resource): "2"}}}]});
    let pods = [
        pod("big", "5", json!({})),
        pod("devices", "0", wants("example.com/gpu")),
        pod("storage", "0", wants("ephemeral-storage")),
        pod("port", "0", ports(80)),
        pod("selector", "0", json!({"nodeSelector": {"disk": "ssd"}})),
        pod("affine", "0", by_label("disk", "Exists")),
        pod("daemon", "1", by_name),
        pod("claim", "0", claims),
        pod("dra", "0", devices),
    ];
    let lines: Vec<String> = pods.into_iter().map(|pod| cluster.schedule(pod)).collect();
    check(
        lines,
        &expect![[r#"
        big: 0/5 nodes are available: 1 Insufficient memory, 1 Too many pods, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 3 Insufficient cpu.
        devices: 0/5 nodes are available: 1 Insufficient memory, 1 Too many pods, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 3 Insufficient example.com/gpu.
        storage: 0/5 nodes are available: 1 Insufficient memory, 1 Too many pods, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 3 Insufficient ephemeral-storage.
        port -> tiny
        selector: 0/5 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 3 node(s) didn't match Pod's node affinity/selector.
        affine: 0/5 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 3 node(s) didn't match Pod's node affinity/selector.
        daemon: 0/5 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 4 node(s) didn't satisfy plugin(s) [NodeAffinity].
        claim: 0/5 nodes are available: persistentvolumeclaim "data" not found.
        dra: 0/5 nodes are available: could not find ResourceClaim "shop/d": object not found.
    "#]],
    );
}

#[test]
fn an_empty_cluster_has_its_own_message() {
    check(
        [TestCluster::new([]).schedule(pod("web", "1", json!({})))],
        &expect![[r#"
        web: no nodes available to schedule pods
    "#]],
    );
}

#[test]
fn tolerations_open_tainted_and_cordoned_nodes() {
    let taint = json!({"spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}});
    let mut cluster =
        TestCluster::new([node("t", "a", taint), node("c", "a", json!({"spec": {"unschedulable": true}}))]);
    let tolerating = |toleration: Value| json!({"tolerations": [toleration]});
    let lines: Vec<String> = [
        json!({"key": "gpu", "value": "yes", "effect": "NoSchedule"}),
        json!({"key": "gpu", "operator": "Exists"}),
        json!({"key": "gpu", "value": "no"}),
        json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}),
    ]
    .into_iter()
    .enumerate()
    .map(|(n, toleration)| cluster.schedule(pod(&format!("p-{n}"), "0", tolerating(toleration))))
    .collect();
    check(
        lines,
        &expect![[r#"
        p-0 -> t
        p-1 -> t
        p-2: 0/2 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable.
        p-3 -> c
    "#]],
    );
}

#[test]
fn scores_are_a_table() {
    let soft = json!({"spec": {"taints": [{"key": "old", "effect": "PreferNoSchedule"}]}});
    let image = json!({"status": {"images": [{"names": ["nginx:latest"], "sizeBytes": 600 * 1024 * 1024}]}});
    let mut cluster = TestCluster::new([node("n1", "a", soft), node("n2", "a", image), node("n3", "b", json!({}))]);
    cluster.place(pod("web-0", "2", json!({})), "n3");
    let spread = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}}}]);
    let spec = json!({
        "topologySpreadConstraints": spread,
        "affinity": {
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 10, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}}]},
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 50, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}}]},
        },
    });
    expect![[r#"
                                               n1   n3   n2
        TaintToleration                   x3    0  100  100
        NodeAffinity                      x2    0  100    0
        NodeResourcesFit                  x1   93   67   93
        PodTopologySpread                 x2  100    0  100
        InterPodAffinity                  x2    0  100    0
        NodeResourcesBalancedAllocation   x1   72   72   72
        ImageLocality                     x1    0    0   18
    "#]]
    .assert_eq(&cluster.scores(pod("web-1", "500m", spec)));
}

#[test]
fn anti_affinity_keeps_pods_apart_and_affinity_brings_them_together() {
    let term = |app: &str, key: &str| json!([{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]);
    let required = |kind: &str, app: &str, key: &str| json!({"affinity": {(kind): {"requiredDuringSchedulingIgnoredDuringExecution": term(app, key)}}});
    let mut cluster = three();
    let lines = [
        pod("db-1", "1", required("podAntiAffinity", "db", "zone")),
        pod("db-2", "1", required("podAntiAffinity", "db", "zone")),
        pod("db-3", "1", required("podAntiAffinity", "db", "zone")),
        // The pod has no anti-affinity, but the existing pods' anti-affinity matches it.
        pod("db-4", "1", json!({})),
        pod("web-1", "1", required("podAffinity", "db", "kubernetes.io/hostname")),
        pod("cache-1", "1", required("podAffinity", "none", "zone")),
        // The first pod of a group with affinity to itself fits anywhere.
        pod("group-1", "1", required("podAffinity", "group", "kubernetes.io/hostname")),
        pod("group-2", "1", required("podAffinity", "group", "kubernetes.io/hostname")),
    ]
    .map(|pod| cluster.schedule(pod));
    check(
        lines,
        &expect![[r#"
        db-1 -> n2
        db-2 -> n3
        db-3: 0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.
        db-4: 0/3 nodes are available: 3 node(s) didn't satisfy existing pods anti-affinity rules.
        web-1 -> n2
        cache-1: 0/3 nodes are available: 3 node(s) didn't match pod affinity rules.
        group-1 -> n1
        group-2 -> n1
    "#]],
    );
}

#[test]
fn pods_spread_over_zones_within_max_skew() {
    let spread = |max_skew: i32| {
        json!({"topologySpreadConstraints": [{"maxSkew": max_skew, "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]})
    };
    let nowhere = json!({"metadata": {"labels": {"zone": null}}});
    let small = json!({"status": {"allocatable": {"cpu": "1"}}});
    let mut cluster = TestCluster::new([node("n1", "a", json!({})), node("n2", "b", small), node("n3", "c", nowhere)]);
    let lines: Vec<String> = (1..=4).map(|n| cluster.schedule(pod(&format!("web-{n}"), "1", spread(1)))).collect();
    check(
        lines,
        &expect![[r#"
        web-1 -> n1
        web-2 -> n2
        web-3 -> n1
        web-4: 0/3 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints, 1 node(s) didn't match pod topology spread constraints (missing required label).
    "#]],
    );
    check(
        [cluster.schedule(pod("web-5", "1", spread(2)))],
        &expect![[r#"
        web-5 -> n1
    "#]],
    );
}

#[test]
fn replicas_spread_by_default() {
    let set = json!({"metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}}});
    let set = proto::kinds::api::apps::v1::ReplicaSet::decode_value(set).unwrap();
    let nodes = [node("n1", "a", json!({})), node("n2", "a", json!({})), node("n3", "b", json!({}))];
    let mut cluster = TestCluster::with(profile(Objects { replica_sets: vec![set], ..Objects::default() }), nodes);
    // n3 has the fewest free resources, and still gets a pod before any node gets a second one.
    cluster.place(pod("other", "3", json!({})), "n3");
    let replica = |n: i32| {
        let mut pod = pod(&format!("web-{n}"), "10m", json!({}));
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": true}]);
        pod
    };
    let lines: Vec<String> = (1..=4).map(|n| cluster.schedule(replica(n))).collect();
    check(
        lines,
        &expect![[r#"
        web-1 -> n2
        web-2 -> n1
        web-3 -> n3
        web-4 -> n2
    "#]],
    );
}

#[test]
fn preemption_removes_as_little_as_possible() {
    let of = |name: &str, cpu: &str, priority: i32| pod(name, cpu, json!({"priority": priority}));
    let mut cluster = three();
    for (name, cpu, priority, node) in [
        ("low-1", "2", 1, "n1"),
        ("low-2", "2", 1, "n1"),
        ("mid-1", "4", 5, "n2"),
        ("low-3", "1", 1, "n3"),
        ("high-1", "3", 9, "n3"),
    ] {
        cluster.place(of(name, cpu, priority), node);
    }
    check(
        [
            cluster.preempt(of("wants-one", "1", 10)),
            cluster.preempt(of("wants-two", "2", 8)),
            cluster.preempt(of("wants-four", "4", 6)),
            cluster.preempt(of("unimportant", "1", 0)),
            cluster.preempt(of("giant", "64", 10)),
            cluster.preempt(pod("shy", "1", json!({"priority": 10, "preemptionPolicy": "Never"}))),
        ],
        &expect![[r#"
            n1 without [low-2]
            n1 without [low-2]
            n1 without [low-1 low-2]
            0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.
            0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.
            0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never. (stays nominated)
        "#]],
    );
}

#[test]
fn a_pod_that_waits_for_victims_preempts_no_others_and_stays_nominated() {
    let mut cluster = three();
    let terminating = |reason: &str| {
        let mut victim = pod("low-1", "4", json!({"priority": 1}));
        victim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        victim["status"] = json!({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]});
        victim
    };
    let mut waiting = pod("waiting", "2", json!({"priority": 5}));
    waiting["status"] = json!({"nominatedNodeName": "n1"});
    for (node, priority) in [("n2", 2), ("n3", 3)] {
        cluster.place(pod(&format!("low-{node}"), "4", json!({"priority": priority})), node);
    }
    cluster.place(terminating("PreemptionByScheduler"), "n1");
    let first = cluster.preempt(waiting.clone());
    // The pod terminates for another reason than preemption, so preemption is not waiting for it.
    cluster.place(terminating("EvictionByEvictionAPI"), "n1");
    let second = cluster.preempt(waiting.clone());
    // The pod cannot run on its nominated node any more.
    cluster.place(terminating("PreemptionByScheduler"), "n1");
    cluster.cache.set_node(node("n1", "a", json!({"spec": {"unschedulable": true}})));
    let third = cluster.preempt(waiting);
    check(
        [first, second, third],
        &expect![[r#"
        0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to a terminating pod on the nominated node. (stays nominated)
        n1 without [low-1]
        n2 without [low-n2]
    "#]],
    );
}

#[test]
fn anti_affinity_is_resolved_by_removing_those_it_is_about() {
    let apart = |app: &str| {
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}]}})
    };
    let mut cluster = TestCluster::new([node("n1", "a", json!({}))]);
    cluster.place(pod("noisy-1", "1", json!({"priority": 1})), "n1");
    cluster.place(pod("quiet-1", "1", json!({"priority": 1})), "n1");
    cluster.place(pod("shy-1", "1", json!({"priority": 1, "affinity": apart("db")})), "n1");
    let lines = [
        cluster.preempt(pod("web", "1", json!({"priority": 5, "affinity": apart("noisy")}))),
        cluster.preempt(pod("db-1", "1", json!({"priority": 5}))),
        cluster.preempt(pod("db-2", "1", json!({"priority": 5, "affinity": apart("noisy")}))),
    ];
    check(
        lines,
        &expect![[r#"
        n1 without [noisy-1]
        n1 without [shy-1]
        n1 without [noisy-1 shy-1]
    "#]],
    );
}

#[test]
fn spreading_is_resolved_by_removing_one_of_the_many() {
    let spread = json!({"priority": 5, "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]});
    let mut cluster = TestCluster::new([
        node("n1", "a", json!({})),
        node("n2", "b", json!({"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}})),
    ]);
    cluster.place(pod("web-1", "1", json!({"priority": 1})), "n1");
    cluster.place(pod("other-1", "1", json!({"priority": 1})), "n1");
    assert_eq!(cluster.preempt(pod("web-2", "1", spread)), "n1 without [web-1]");
}

#[test]
fn without_post_filter_plugins_there_is_no_further_message() {
    let claims = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]});
    let devices = json!({"resourceClaims": [{"name": "d", "resourceClaimName": "d"}]});
    let lines = [three().preempt(pod("claim", "0", claims)), three().preempt(pod("dra", "0", devices))];
    check(
        lines,
        &expect![[r#"
        0/3 nodes are available: persistentvolumeclaim "data" not found. not found (stays nominated)
        0/3 nodes are available: could not find ResourceClaim "shop/d": object not found. no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.
    "#]],
    );
}

#[test]
fn disruption_budgets_are_respected_if_possible() {
    let budget = json!({"metadata": {"name": "b", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "safe"}}}, "status": {"disruptionsAllowed": 0,
        "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}});
    let budgets = vec![proto::kinds::api::policy::v1::PodDisruptionBudget::decode_value(budget).unwrap()];
    let nodes = [node("n1", "a", json!({})), node("n2", "a", json!({}))];
    let mut cluster = TestCluster::with(profile(Objects { budgets, ..Objects::default() }), nodes);
    cluster.place(pod("safe-1", "4", json!({"priority": 1})), "n1");
    cluster.place(pod("free-1", "4", json!({"priority": 2})), "n2");
    assert_eq!(cluster.preempt(pod("web", "1", json!({"priority": 9}))), "n2 without [free-1]");
}

#[test]
fn the_space_of_a_nominated_pod_stays_free() {
    let mut cluster = TestCluster::new([node("n1", "a", json!({}))]);
    let waiting = crate::fixture::info(pod("waiting", "3", json!({"priority": 5})));
    cluster.nominated.set(waiting, "n1");
    assert_eq!(cluster.schedule(pod("large", "2", json!({}))), "large: 0/1 nodes are available: 1 Insufficient cpu.");
    assert_eq!(cluster.schedule(pod("small", "1", json!({}))), "small -> n1");
    assert_eq!(cluster.schedule(pod("important", "2", json!({"priority": 6}))), "important -> n1");
}

#[test]
fn large_clusters_are_searched_in_part_and_in_turn() {
    let mut cluster = TestCluster::new((0..250).map(|n| node(&format!("n{n:03}"), "a", json!({}))));
    let mut seen = Vec::new();
    for n in 0..3 {
        cluster.rotation = Rotation::at(n * 120);
        let info = crate::fixture::info(pod(&format!("web-{n}"), "1", json!({})));
        let decision = cluster.decide(&info, &mut CycleState::default()).unwrap();
        seen.push((cluster.names(&decision)[0].clone(), decision.feasible.len(), decision.evaluated));
    }
    assert_eq!(seen, [("n000".into(), 120, 120), ("n120".into(), 120, 120), ("n240".into(), 120, 120)]);
}

#[test]
fn a_pod_that_names_its_nodes_leaves_the_others_their_turn() {
    let mut cluster = TestCluster::new((0..5).map(|n| node(&format!("n{n}"), "a", json!({}))));
    let named = |names: Value| {
        let fields = json!([{"key": "metadata.name", "operator": "In", "values": names}]);
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": fields}]}}}})
    };
    // One node was filtered: the next search begins at the next of all nodes, not of the named ones.
    for expected in 1..=6 {
        cluster.schedule(pod(&format!("daemon-{expected}"), "0", named(json!(["n3"]))));
        assert_eq!(cluster.rotation.next_start(), expected % 5);
    }
}

#[test]
fn conflicting_node_names_have_their_own_reason() {
    let field = |names: Value| json!({"key": "metadata.name", "operator": "In", "values": names});
    let required = |terms: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
    let lines = [
        three().schedule(pod(
            "both",
            "0",
            required(json!([{"matchFields": [field(json!(["n1", "n2"])), field(json!(["n2", "n3"]))]}])),
        )),
        three().schedule(pod(
            "neither",
            "0",
            required(json!([{"matchFields": [field(json!(["n1"])), field(json!(["n2"]))]}])),
        )),
    ];
    check(
        lines,
        &expect![[r#"
        both -> n2
        neither: 0/3 nodes are available: pod affinity terms conflict.
    "#]],
    );
}

#[test]
fn nodes_outside_the_zones_weigh_in_when_replicas_spread() {
    let set = json!({"metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}}});
    let set = proto::kinds::api::apps::v1::ReplicaSet::decode_value(set).unwrap();
    let nowhere = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": null}}});
    let nodes = [node("n1", "a", json!({})), node("n2", "a", json!({})), node("n3", "x", nowhere)];
    let mut cluster = TestCluster::with(profile(Objects { replica_sets: vec![set], ..Objects::default() }), nodes);
    let replica = |n: i32| {
        let mut pod = pod(&format!("web-{n}"), "10m", json!({}));
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": true}]);
        pod
    };
    for n in 0..4 {
        cluster.place(replica(n), "n1");
    }
    // A pod counts ln(5) by hostname, for three nodes, and ln(4) by zone: zone `a` and no zone are two domains.
    // n1: 4*1.609 + 2 + 4*1.386 + 4 = 17.98; n2: 2 + 4*1.386 + 4 = 11.55; n3: 2.
    expect![[r#"
                                               n3   n1   n2
        TaintToleration                   x3  100  100  100
        NodeResourcesFit                  x1   99   97   99
        PodTopologySpread                 x2  100   11   44
        NodeResourcesBalancedAllocation   x1   74   75   74
        ImageLocality                     x1    0    0    0
    "#]]
    .assert_eq(&cluster.scores(replica(9)));
}

#[test]
fn a_selector_of_everything_counts_nothing() {
    // For the API an empty selector selects all pods. For the counts of a spread constraint it selects none.
    let spread = json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]});
    let mut cluster = TestCluster::new([
        node("n1", "a", json!({})),
        node("n2", "b", json!({"status": {"allocatable": {"cpu": "0"}}})),
    ]);
    let lines: Vec<String> = (1..=3).map(|n| cluster.schedule(pod(&format!("web-{n}"), "1", spread.clone()))).collect();
    assert_eq!(lines, ["web-1 -> n1", "web-2 -> n1", "web-3 -> n1"]);
}

#[test]
fn images_of_volumes_count_too() {
    let image = json!({"status": {"images": [{"names": ["data:latest"], "sizeBytes": 900 * 1024 * 1024}]}});
    let mut cluster = TestCluster::new([node("n1", "a", image), node("n2", "a", json!({}))]);
    let scores = cluster.scores(pod("web", "1", json!({"volumes": [{"name": "v", "image": {"reference": "data"}}]})));
    let line = scores.lines().find(|line| line.starts_with("ImageLocality")).unwrap();
    // Half of the nodes have the image, so half of its size counts: (450-23)/(1000-23).
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["ImageLocality", "x1", "43", "0"]);
}

/// Returns the nodes with the scores of the only Score plugin, by name.
fn only_scores(cluster: &mut TestCluster, pod: Value) -> Vec<(String, i64)> {
    let decision = cluster.decide(&crate::fixture::info(pod), &mut CycleState::default()).unwrap();
    let mut scores: Vec<_> =
        cluster.names(&decision).into_iter().zip(decision.scores[0].scores.iter().copied()).collect();
    scores.sort();
    scores
}

fn profile_with(plugins: Value, config: Value) -> Profile {
    let profile = json!({"schedulerName": "default-scheduler", "plugins": plugins, "pluginConfig": config});
    crate::fixture::profile_of(&profile, Objects::default())
}

/// Of 4 cores and 8 GiB, `n1` has 3 cores and 128 MiB used with the pod, and the others 1 core and 64 MiB.
#[test]
fn full_nodes_are_preferred_as_the_arguments_say() {
    for (strategy, expected) in [
        (json!({"type": "LeastAllocated"}), [(25 + 98) / 2, (75 + 99) / 2]),
        (json!({"type": "MostAllocated"}), [(75 + 1) / 2, 25 / 2]),
        (json!({"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}), [75, 25]),
        // (3 · 75 + 1 · 1) / 4 is 56.5, and a score of zero does not count.
        (
            json!({"type": "RequestedToCapacityRatio", "resources": [{"name": "cpu", "weight": 3}, {"name": "memory"}],
                "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}}),
            [57, 25],
        ),
    ] {
        let only_fit = json!({"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}});
        let config = json!([{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]);
        let nodes = ["n1", "n2", "n3"].map(|name| node(name, "a", json!({})));
        let mut cluster = TestCluster::with(profile_with(only_fit, config), nodes);
        cluster.place(pod("old", "2", json!({})), "n1");
        let [first, others] = expected;
        let expected = [("n1", first), ("n2", others), ("n3", others)].map(|(name, score)| (name.to_owned(), score));
        assert_eq!(only_scores(&mut cluster, pod("web", "1", json!({}))), expected, "{strategy}");
    }
}

#[test]
fn a_profile_adds_node_affinity_and_ignores_resources() {
    let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]});
    let added = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}});
    let config = json!([
        {"name": "NodeAffinity", "args": {"addedAffinity": added}},
        {"name": "NodeResourcesFit", "args": {"ignoredResources": ["example.com/gpu"], "ignoredResourceGroups": ["ours.com"]}},
    ]);
    let nodes = [node("n1", "a", json!({})), node("n2", "b", json!({}))];
    let mut cluster = TestCluster::with(profile_with(json!({}), config), nodes);
    let wants = |resource: &str| json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", (resource): "1"}}}]});
    let lines = [
        pod("big", "3", json!({})),
        pod("large", "3", json!({})),
        pod("gpu", "1", wants("example.com/gpu")),
        pod("fpga", "1", wants("ours.com/fpga")),
        pod("tpu", "1", wants("example.com/tpu")),
    ]
    .map(|pod| cluster.schedule(pod));
    check(
        lines,
        &expect![[r#"
            big -> n1
            large: 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match scheduler-enforced node affinity.
            gpu -> n1
            fpga: 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match scheduler-enforced node affinity.
            tpu: 0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient example.com/tpu, 1 node(s) didn't match scheduler-enforced node affinity.
        "#]],
    );
}

#[test]
fn listed_constraints_spread_pods_that_have_none() {
    let constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"});
    let args = json!({"defaultingType": "List", "defaultConstraints": [constraint]});
    let profile = json!({"schedulerName": "s", "pluginConfig": [{"name": "PodTopologySpread", "args": args}]});
    let set = json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}}});
    let replica_sets = vec![proto::kinds::api::apps::v1::ReplicaSet::decode_value(set).unwrap()];
    let profile = crate::fixture::profile_of(&profile, Objects { replica_sets, ..Objects::default() });
    let small = json!({"status": {"allocatable": {"cpu": "1"}}});
    let mut cluster = TestCluster::with(profile, [node("n1", "a", json!({})), node("n2", "b", small)]);
    let owned = |name: &str| {
        let mut pod = pod(name, "1", json!({}));
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}]);
        pod
    };
    let lines: Vec<String> = (1..=4).map(|n| cluster.schedule(owned(&format!("web-{n}")))).collect();
    check(
        lines,
        &expect![[r#"
            web-1 -> n1
            web-2 -> n2
            web-3 -> n1
            web-4: 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints.
        "#]],
    );
}

#[test]
fn ties_go_round_by_name() {
    let images = json!({"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "ImageLocality"}]}});
    let profile = json!({"schedulerName": "s", "plugins": images, "tieBreak": "RoundRobin"});
    let profile = crate::fixture::profile_of(&profile, Objects::default());
    let nodes = ["n2", "n1", "n3"].map(|name| node(name, "a", json!({})));
    let mut cluster = TestCluster::with(profile, nodes);
    let lines: Vec<String> = (1..=4).map(|n| cluster.schedule(pod(&format!("p-{n}"), "100m", json!({})))).collect();
    assert_eq!(lines, ["p-1 -> n1", "p-2 -> n2", "p-3 -> n3", "p-4 -> n1"]);
}
