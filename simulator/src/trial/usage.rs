//! `Everything`: what all nodes and pods of a trial use, for those who look at the cluster. A simulated container uses what it requests;
//! the pods of Deployments use their parts of a load, which `Loads` knows.

use super::namespace;
use super::pod_state::PodState;
use experiments::amounts::{CPU, MEMORY};
use metrics_server::answers::Usage;
use proto::meta::quantity::Quantity;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The nodes that are there, and the pods that users have created.
#[derive(Debug, Default)]
pub struct Everything {
    pub nodes: BTreeSet<String>,
    /// By `namespace/name`.
    pub pods: BTreeMap<String, PodUsage>,
}

#[derive(Clone, Debug, Default)]
pub struct PodUsage {
    pub labels: Option<BTreeMap<String, String>>,
    /// Of each container, while it runs.
    pub usages: Vec<Usage>,
    /// The node on which the pod runs; `None` while it does not.
    pub node: Option<String>,
}

impl Everything {
    /// Notes a pod as its user creates it.
    pub fn remember(&mut self, pod: &Value) {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let containers = pod["spec"]["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let usage = PodUsage {
            labels: serde_json::from_value(pod["metadata"]["labels"].clone()).ok(),
            usages: containers.iter().map(usage).collect(),
            node: None,
        };
        self.pods.insert(format!("{}/{name}", namespace(pod)), usage);
    }

    pub fn see_node(&mut self, node: &str, is_ready: bool) {
        match is_ready {
            true => drop(self.nodes.insert(node.to_owned())),
            false => drop(self.nodes.remove(node)),
        }
    }

    /// Takes a write to a pod; `None` deletes it.
    pub fn see_pod(&mut self, pod: &str, state: Option<&PodState>) {
        if let Some(known) = self.pods.get_mut(pod) {
            known.node = state.and_then(node_of).cloned();
        }
    }
}

/// Returns the node on which a pod runs.
pub fn node_of(state: &PodState) -> Option<&String> {
    state.node.as_ref().filter(|_| state.phase == "Running")
}

/// Returns what a container uses: its requests.
fn usage(container: &Value) -> Usage {
    let amount = |resource: &str| {
        let request = Quantity::try_from(&container["resources"]["requests"][resource]);
        request.map_or(0.0, |quantity| quantity.as_f64())
    };
    Usage {
        name: container["name"].as_str().unwrap_or_default().to_owned(),
        cpu_cores: amount(CPU),
        memory_bytes: amount(MEMORY),
    }
}
