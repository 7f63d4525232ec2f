//! Preemption again and again on a cluster that changes. The second answer of each pair comes from a profile that has kept
//! nothing.

use crate::fixture::{TestCluster, info, node, pod};
use serde_json::{Value, json};
use std::mem;

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
