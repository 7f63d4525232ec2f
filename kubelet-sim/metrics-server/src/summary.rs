//! What a node says of its usage on `/stats/summary`.
//!
//! Corresponds to Summary of k8s.io/kubelet/pkg/apis/stats/v1alpha1, as far as the group shows it.

use crate::answers::Usage;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub struct Summary {
    node: Stats,
    #[serde(default)]
    pods: Vec<PodStats>,
}

/// The usage of a pod's running containers.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStats {
    pub pod_ref: PodReference,
    #[serde(default)]
    containers: Vec<ContainerStats>,
}

#[derive(Debug, Deserialize)]
pub struct PodReference {
    pub name: String,
    pub namespace: String,
}

#[derive(Debug, Deserialize)]
struct ContainerStats {
    name: String,
    #[serde(flatten)]
    stats: Stats,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Stats {
    cpu: Cpu,
    memory: Memory,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Cpu {
    usage_nano_cores: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Memory {
    working_set_bytes: u64,
}

impl Stats {
    fn usage(&self, name: &str) -> Usage {
        Usage {
            name: name.to_owned(),
            cpu_cores: self.cpu.usage_nano_cores as f64 / 1e9,
            memory_bytes: self.memory.working_set_bytes as f64,
        }
    }
}

impl Summary {
    pub fn read(page: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(page)
    }

    /// Returns the usage of the node as a whole.
    pub fn of_node(&self) -> Usage {
        self.node.usage("")
    }

    pub fn pods(&self) -> &[PodStats] {
        &self.pods
    }
}

impl PodStats {
    pub fn usages(&self) -> Vec<Usage> {
        self.containers.iter().map(|container| container.stats.usage(&container.name)).collect()
    }
}
