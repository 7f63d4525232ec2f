//! Hints for equal pods: when there is one, and that it changes no decision.

use crate::fixture::{Objects, TestCluster, info, node, pod, profile_of};
use component_base::env::Env;
use component_base::rng::Random;
use proto::kinds::api::core::v1::Node;
use scheduling_framework::CycleState;
use scheduling_framework::batch::{BatchTrace, Batches};
use scheduling_framework::timings::Timings;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Returns a cluster whose profile signs pods. Ties are broken in turn, because a search draws more random numbers than a
/// hint.
fn cluster(nodes: Vec<Arc<Node>>, batches: bool) -> TestCluster {
    let disabled = json!([{"name": "NodeResourcesFit"}, {"name": "NodeResourcesBalancedAllocation"}]);
    let args = json!({"defaultingType": "List"});
    let profile = json!({
        "schedulerName": "s", "tieBreak": "RoundRobin", "plugins": {"multiPoint": {"disabled": disabled}},
        "pluginConfig": [{"name": "PodTopologySpread", "args": args}],
    });
    let mut cluster = TestCluster::with(profile_of(&profile, Objects::default()), nodes);
    cluster.rotation.batches = batches.then(Batches::default);
    cluster
}

/// Returns a pod with a host port, so that a node takes one of its kind.
fn with_port(name: &str, port: usize) -> Value {
    let ports = json!([{"containerPort": 80, "hostPort": port}]);
    let container = json!({"name": "c", "image": format!("app-{port}"), "ports": ports});
    let mut pod = pod(name, "1", json!({"containers": [container]}));
    pod["metadata"]["labels"] = json!({"app": "web"});
    pod
}

fn with_images(name: &str, random: &Random) -> Arc<Node> {
    let images = (80..82).filter(|_| random.below(2) == 0);
    let images =
        images.map(|port| json!({"names": [format!("app-{port}")], "sizeBytes": random.below(9) * 100_000_000}));
    node(name, ["a", "b"][random.below(2)], json!({"status": {"images": images.collect::<Vec<_>>()}}))
}

impl TestCluster {
    /// Schedules a pod. Returns its node, and what batching has done.
    fn traced(&mut self, pod: Value, clock: Option<&Env>) -> (String, BatchTrace) {
        let (info, mut state) = (info(pod), CycleState::default());
        if let Some(clock) = clock {
            state.timings = Timings::new(clock, false);
        }
        match self.decide(&info, &mut state) {
            Ok(decision) => {
                self.cache.assume(info, &decision.node);
                (decision.node, state.batch)
            }
            Err(error) => (error.to_string(), state.batch),
        }
    }
}

#[test]
fn hints_change_no_decision() {
    let mut used = 0;
    for seed in 0..60 {
        let random = Random::from_seed(seed, "batches");
        let mut nodes: Vec<_> = (0..2 + random.below(9)).map(|at| with_images(&format!("n{at}"), &random)).collect();
        let mut both = [true, false].map(|batches| cluster(nodes.clone(), batches));
        for step in 0..40 {
            let name = format!("p{step}");
            match random.below(12) {
                0 => {
                    let added = with_images(&format!("m{step}"), &random);
                    nodes.push(added.clone());
                    both.iter_mut().for_each(|cluster| cluster.cache.set_node(added.clone()));
                }
                1 => {
                    let victim = format!("p{}", random.below(step + 1));
                    both.iter_mut().for_each(|cluster| drop(cluster.cache.remove_pod(&victim)));
                }
                2 => {
                    let node = nodes[random.below(nodes.len())].clone();
                    let node = node.metadata.name.clone().unwrap_or_default();
                    both.iter_mut().for_each(|cluster| cluster.place(with_port(&name, 80), &node));
                }
                _ => {
                    let new = with_port(&name, 80 + usize::from(random.below(6) == 0));
                    let [hinted, searched] = &mut both;
                    let (found, trace) = hinted.traced(new.clone(), None);
                    assert_eq!(found, searched.traced(new, None).0, "seed {seed}, step {step}: {trace:?}");
                    used += usize::from(trace.attempts == ["hint_used"]);
                }
            }
        }
    }
    assert!(used > 100, "{used} hints were used");
}

#[tokio::test(start_paused = true)]
async fn a_batch_ends_for_a_reason() {
    let four = || (0..4).map(|at| node(&format!("n{at}"), "a", json!({}))).collect::<Vec<_>>();
    for (what, expected) in [
        ("", "[\"hint_used\"] []"),
        ("other shape", "[\"no_hint\"] [\"pod_incompatible\"]"),
        ("late", "[\"no_hint\"] [\"expired\"]"),
        ("other pod", "[\"no_hint\"] [\"pod_skipped\"]"),
        ("node changed", "[\"no_hint\"] [\"expired\"]"),
        ("free node", "[\"no_hint\"] [\"node_not_full\"]"),
        ("unsigned", "[\"no_hint\"] [\"pod_incompatible\", \"pod_not_batchable\"]"),
    ] {
        let (env, mut cluster) = (Env::simulated(1), cluster(four(), true));
        let (first, trace) = cluster.traced(with_port("first", 80), Some(&env));
        assert_eq!((trace.attempts, trace.flushed), (vec!["no_hint"], vec![]), "{what}");
        let mut next = with_port("next", 80);
        match what {
            "other shape" => next = with_port("next", 81),
            "late" => env.sleep(Duration::from_millis(501)).await,
            "other pod" => {
                drop(cluster.traced(pod("nowhere", "1", json!({"nodeSelector": {"none": "such"}})), Some(&env)))
            }
            "node changed" => {
                let other = if first == "n3" { "n2" } else { "n3" };
                cluster.place(pod("other", "1", json!({})), other);
            }
            "free node" => drop(cluster.cache.remove_pod("first")),
            "unsigned" => {
                let spread = json!([{"maxSkew": 9, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}]);
                next["spec"]["topologySpreadConstraints"] = spread;
            }
            _ => {}
        }
        let (_, trace) = cluster.traced(next, Some(&env));
        assert_eq!(format!("{:?} {:?}", trace.attempts, trace.flushed), expected, "{what}");
    }
}
