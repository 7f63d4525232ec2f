//! Preemption again and again on a cluster that changes. The second answer of each pair comes from a profile that has kept
//! nothing.

use crate::fixture::{TestCluster, info, node, pod};
use component_base::rng::Random;
use scheduling_framework::cache::NodeInfo;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{CycleState, Filter, Plugin, Rejection};
use serde_json::{Value, json};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the preemption by a profile that has seen the former states, which must be that of a new one.
fn preempt(cluster: &mut TestCluster, pod: &Value) -> String {
    let kept = cluster.preempt(pod.clone());
    let without_results = cluster.profile.clone();
    let used = mem::replace(&mut cluster.profile, without_results);
    assert_eq!(kept, cluster.preempt(pod.clone()), "{pod}");
    cluster.profile = used;
    kept
}

#[test]
fn kept_candidates_follow_nodes_pods_priorities_and_nominations() {
    let of = |name: &str, priority: i32| pod(name, "4", json!({"priority": priority}));
    let started = |name: &str, hour: u32| {
        let mut pod = of(name, 1);
        pod["status"] = json!({"startTime": format!("2026-01-01T{hour:02}:00:00Z")});
        pod
    };
    let mut cluster = TestCluster::new(["n1", "n2"].map(|name| node(name, "a", json!({}))));
    cluster.place(started("a", 1), "n1");
    cluster.place(started("b", 2), "n2");
    let wanting = of("wanting", 5);
    // The victim that has run for the shorter time goes.
    assert_eq!(preempt(&mut cluster, &wanting), "n2 without [b]");
    // A status that counts for nothing else.
    cluster.place(started("b", 0), "n2");
    assert_eq!(preempt(&mut cluster, &wanting), "n1 without [a]");
    // Another pod of equal needs may evict less.
    assert!(preempt(&mut cluster, &of("humble", 1)).contains("2 No preemption victims found for incoming pod"));
    // A pod of higher priority takes the place of the victim.
    cluster.cache.remove_pod("a");
    cluster.place(of("c", 3), "n1");
    assert_eq!(preempt(&mut cluster, &wanting), "n2 without [b]");
    // The node is promised to another pod.
    cluster.nominated.set(info(of("promised", 9)), "n2");
    assert_eq!(preempt(&mut cluster, &wanting), "n1 without [c]");
    // Of two that are promised to it, one is enough to keep others away.
    cluster.nominated.set(info(of("promised-too", 9)), "n2");
    assert_eq!(preempt(&mut cluster, &wanting), "n1 without [c]");
    cluster.nominated.remove("promised-too");
    assert_eq!(preempt(&mut cluster, &wanting), "n1 without [c]");
    // It is promised to the pod itself.
    cluster.nominated.remove(info(of("promised", 9)).uid());
    cluster.nominated.set(info(wanting.clone()), "n2");
    assert_eq!(preempt(&mut cluster, &wanting), "n2 without [b]");
    cluster.nominated.remove("wanting");
    // The node takes no pods any more.
    cluster.cache.set_node(node("n2", "a", json!({"spec": {"unschedulable": true}})));
    assert_eq!(preempt(&mut cluster, &wanting), "n1 without [c]");
    // Numbers of nodes change.
    cluster.cache.set_node(node("n0", "a", json!({})));
    cluster.place(of("d", 2), "n0");
    assert_eq!(preempt(&mut cluster, &wanting), "n0 without [d]");
}

/// A pod that wants even zones, no other of its group on its node, and to be near a friend.
fn picky() -> Value {
    let of = |app: &str| json!({"matchLabels": {"app": app}});
    let term = |app: &str, key: &str| json!([{"topologyKey": key, "labelSelector": of(app)}]);
    let zones =
        json!({"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": of("web")});
    let affinity = json!({
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term("friend", "zone")},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term("web", "kubernetes.io/hostname")},
    });
    pod("web-new", "2", json!({"priority": 5, "topologySpreadConstraints": [zones], "affinity": affinity}))
}

/// A local filter that counts its calls. The last of the filters, it is asked of nodes that fit, also in simulations.
#[derive(Default)]
struct Counting(AtomicUsize);

impl Plugin for Counting {
    fn name(&self) -> &'static str {
        "Counting"
    }
}

impl Filter for Counting {
    fn filter(&self, _: &CycleState, _: &PodInfo, _: &NodeInfo) -> Result<(), Rejection> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn is_local(&self, _: &CycleState) -> bool {
        true
    }
}

#[test]
fn candidates_are_kept_while_other_nodes_change_what_does_not_matter() {
    let nodes = [("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")];
    let mut cluster = TestCluster::new(nodes.map(|(name, zone)| node(name, zone, json!({}))));
    let counting = Arc::new(Counting::default());
    cluster.profile.filter.push(counting.clone());
    for (name, _) in nodes {
        cluster.place(pod(&format!("friend-{name}"), "2", json!({})), name);
        cluster.place(pod(&format!("db-{name}"), "2", json!({"priority": 9})), name);
    }
    let simulates = |cluster: &mut TestCluster| {
        let before = counting.0.load(Ordering::Relaxed);
        let preempted = cluster.preempt(picky());
        (preempted, counting.0.load(Ordering::Relaxed) > before)
    };
    let (first, is_simulated) = simulates(&mut cluster);
    assert!(first.contains("without [friend-") && is_simulated, "{first}");
    // One more pod of the group in zone b leaves the zones even enough, and one more friend is nothing new.
    cluster.place(pod("web-1", "0", json!({"priority": 9})), "b2");
    cluster.place(pod("friend-3", "0", json!({"priority": 9})), "a2");
    let (second, _) = simulates(&mut cluster);
    assert!(second.contains("without [friend-"), "{second}");
    assert_eq!(simulates(&mut cluster), (second, false));
    // What was found on the nodes that have not changed themselves is not sought again.
    cluster.place(pod("web-2", "0", json!({"priority": 9})), "b2");
    cluster.cache.set_node(node("b2", "b", json!({"spec": {"unschedulable": true}})));
    let (third, is_simulated) = simulates(&mut cluster);
    assert!(third.contains("without [friend-") && !is_simulated, "{third}");
}

/// Pods come and go at random on nodes of two zones.
#[test]
fn kept_candidates_of_picky_pods_equal_new_ones() {
    let mut preemptions = 0;
    for seed in 0..40 {
        let random = Random::from_seed(seed, "picky");
        let nodes: Vec<String> = (0..5).map(|number| format!("n{number}")).collect();
        let zone = |number: usize| ["a", "b"][number % 2];
        let mut cluster =
            TestCluster::new(nodes.iter().enumerate().map(|(number, name)| node(name, zone(number), json!({}))));
        for step in 0..25 {
            let name = format!("{}-{}", ["web", "friend", "db"][random.below(3)], random.below(12));
            match random.below(5) {
                0 => drop(cluster.cache.remove_pod(&name)),
                1 => {
                    cluster.nominated.remove("web-nominated");
                    let nominated = pod("web-nominated", "1", json!({"priority": 7}));
                    cluster.nominated.set(info(nominated), &nodes[random.below(5)]);
                }
                _ => {
                    let cpu = ["500m", "1", "2"][random.below(3)];
                    let priority = random.below(8);
                    let mut placed = pod(&name, cpu, json!({"priority": priority}));
                    // Different times, so that no two candidates are equal.
                    placed["status"] = json!({"startTime": format!("2026-01-01T00:{step:02}:00Z")});
                    cluster.place(placed, &nodes[random.below(5)]);
                }
            }
            let preempted = preempt(&mut cluster, &picky());
            preemptions += usize::from(preempted.contains("without"));
            assert!(!preempted.is_empty(), "seed {seed}, step {step}");
        }
    }
    assert!(preemptions > 50, "{preemptions}");
}

/// Most preemptions simulate the sums of a node's row. A filter that reads pods makes them copy each node.
#[test]
fn rows_and_copies_of_nodes_have_the_same_victims() {
    let (mut preemptions, mut messages) = (0, 0);
    for seed in 0..60 {
        let random = Random::from_seed(seed, "rows");
        let node = |name: &String| {
            let cordoned = random.below(6) == 0;
            let pods = ["3", "110"][random.below(2)];
            let room = json!({"pods": pods, "x.dev/gpu": "2"});
            node(name, "a", json!({"spec": {"unschedulable": cordoned}, "status": {"allocatable": room}}))
        };
        let nodes: Vec<String> = (0..6).map(|number| format!("n{number}")).collect();
        let mut cluster = TestCluster::new(nodes.iter().map(node));
        let asking = |name: &str, cpu: &str, priority: usize| {
            let mut pod = pod(name, cpu, json!({"priority": priority}));
            if random.below(3) == 0 {
                pod["spec"]["containers"][0]["resources"]["requests"]["x.dev/gpu"] = json!("1");
            }
            pod
        };
        for number in 0..24 {
            let (cpu, priority) = (["0", "500m", "2"][random.below(3)], random.below(5));
            let mut placed = asking(&format!("p{number}"), cpu, priority);
            placed["status"] = json!({"startTime": format!("2026-01-01T00:{number:02}:00Z")});
            cluster.place(placed, &nodes[random.below(6)]);
        }
        let wanting = asking("wanting", ["3", "4", "5"][random.below(3)], 3);
        if random.below(2) == 0 {
            cluster.nominated.set(info(asking("promised", "1", 4)), &nodes[random.below(6)]);
        }
        let by_rows = cluster.preempt(wanting.clone());
        cluster.profile = cluster.profile.clone();
        cluster.profile.filter.push(Arc::new(Counting::default()));
        assert_eq!(by_rows, cluster.preempt(wanting), "seed {seed}");
        preemptions += usize::from(by_rows.contains("without"));
        messages += usize::from(by_rows.contains("preemption:"));
    }
    assert!(preemptions > 15 && messages > 10, "{preemptions} {messages}");
}
