//! Measures what scripts cost: pods of one profile over 1,000 nodes, with and without a script, in one process.
//!
//!     cargo run --release -p scheduler-scripts --example cost

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "it measures real time, and is no part of a component"
)]

use scheduler_plugins::fixture::{Objects, TestCluster, node, pod, registry};
use scheduling_framework::assembly::assemble;
use scheduling_framework::configuration::profile::ProfileConfiguration;
use serde_json::{Value, json};
use std::time::Instant;

const NODES: usize = 1000;
const PODS: usize = 5000;

const SCORE: &str = "
function score(pod, node)
  return 100 * math.max(0, 1 - (node.requested.cpu + pod.requests.cpu) / node.allocatable.cpu)
end";

const FILTER_AND_SCORE: &str = "
function filter(pod, node)
  if node.labels.quiet and not pod.labels.quiet then return 'quiet' end
end
function score(pod, node)
  return 100 * math.max(0, 1 - (node.requested.cpu + pod.requests.cpu) / node.allocatable.cpu)
end";

const PODS_OF_NODE: &str = "
function score(pod, node)
  local same = 0
  for _, other in node.pods do
    if other.labels.app == pod.labels.app then same += 1 end
  end
  return 100 / (1 + same)
end";

fn main() {
    let scripts = [
        ("no script", None),
        ("score", Some(SCORE)),
        ("filter and score", Some(FILTER_AND_SCORE)),
        ("score over the node's pods", Some(PODS_OF_NODE)),
    ];
    println!("{PODS} pods over {NODES} nodes");
    for percentage in [0, 100] {
        for (name, script) in &scripts {
            println!(
                "{name}, percentageOfNodesToScore {percentage}: {:.0} pods/s",
                pods_per_second(*script, percentage)
            );
        }
    }
}

fn pods_per_second(script: Option<&str>, percentage: usize) -> f64 {
    let mut configuration = json!({"schedulerName": "s"});
    if let Some(source) = script {
        configuration["plugins"] = json!({"multiPoint": {"enabled": [{"name": "Script"}]}});
        configuration["pluginConfig"] = json!([{"name": "Script", "args": {"source": source}}]);
    }
    let mut registry = registry(Objects::default());
    scheduler_scripts::register(&mut registry);
    let profile = ProfileConfiguration::read("profiles[0]", &configuration, &mut Vec::new());
    let mut profile = assemble(&profile, &registry).unwrap();
    profile.percentage_of_nodes_to_score = percentage;
    let nodes = (0..NODES).map(|at| node(&format!("node-{at}"), &format!("zone-{}", at % 3), json!({})));
    let mut cluster = TestCluster::with(profile, nodes);
    let pods: Vec<Value> = (0..PODS).map(|at| pod(&format!("app{}-{at}", at % 10), "100m", json!({}))).collect();
    let began = Instant::now();
    for pod in pods {
        let placed = cluster.schedule(pod);
        assert!(placed.contains("->"), "{placed}");
    }
    PODS as f64 / began.elapsed().as_secs_f64()
}
