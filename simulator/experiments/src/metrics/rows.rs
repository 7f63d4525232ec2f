//! One row for each pod, and one for each sample.

use crate::amounts::Amounts;
use crate::record::PodCreated;
use serde::Serialize;

/// What a run has made of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodRow {
    pub created: PodCreated,
    pub created_us: u64,
    /// When it was bound and started for the first time.
    pub scheduled_us: Option<u64>,
    pub started_us: Option<u64>,
    pub finished_us: Option<u64>,
    /// When it was deleted before it finished, if it was not created again.
    pub deleted_us: Option<u64>,
    pub succeeded: bool,
    /// The node on which it is now.
    pub node: Option<String>,
    pub last_node: String,
    pub is_pending: bool,
    pub is_running: bool,
    /// What it uses while it runs.
    pub uses: Amounts,
    /// Times that it was bound.
    pub placements: u64,
    pub preemptions: u64,
    pub evictions: u64,
    pub failed_attempts: u64,
    pub last_reason: String,
}

impl PodRow {
    pub fn new(created: &PodCreated, created_us: u64) -> Self {
        Self { created: created.clone(), created_us, ..Self::default() }
    }

    /// Job completion time. A pod that failed, as those on a machine that crashes do, has completed nothing.
    pub fn jct_us(&self) -> Option<u64> {
        self.finished_us.filter(|_| self.succeeded).map(|finished_us| finished_us - self.created_us)
    }
}

/// The cluster at one moment. Resources are parts of what is allocatable.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    pub at_us: u64,
    pub nodes: u64,
    pub pending: u64,
    pub bound: u64,
    /// Pods of Deployments that run, and the CPU that their users ask for, in cores.
    pub replicas: u64,
    pub load_cpu: f64,
    pub cpu: f64,
    pub memory: f64,
    pub gpu: f64,
    pub fragmentation: f64,
    pub power_w: f64,
    pub price_per_hour: f64,
}

/// What a run has made of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeRow {
    pub node: String,
    pub group: String,
    pub gpu_model: String,
    pub gpu_count: u32,
    /// Part of its time in the cluster that its CPU was allocated.
    pub cpu_allocation: f64,
    pub present_s: f64,
    pub price: f64,
    /// Pods that were bound to it last.
    pub pods: u64,
}
