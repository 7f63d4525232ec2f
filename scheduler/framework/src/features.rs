//! `Features`, the feature gates of kube-scheduler that are on.
//!
//! Corresponds to pkg/scheduler/framework/plugins/feature.

use component_base::options::feature_gates::{self, GateValues};
use std::collections::BTreeSet;

/// One cycle for all pods of a PodGroup.
pub const GENERIC_WORKLOAD: &str = "GenericWorkload";
pub const GANG_SCHEDULING: &str = "GangScheduling";
pub const TOPOLOGY_AWARE_WORKLOAD_SCHEDULING: &str = "TopologyAwareWorkloadScheduling";
pub const WORKLOAD_AWARE_PREEMPTION: &str = "WorkloadAwarePreemption";
pub const NOMINATED_NODE_NAME_FOR_EXPECTATION: &str = "NominatedNodeNameForExpectation";
pub const OPPORTUNISTIC_BATCHING: &str = "OpportunisticBatching";
pub const NODE_DECLARED_FEATURES: &str = "NodeDeclaredFeatures";
/// Taints of DeviceTaintRules count beside those of slices.
pub const DRA_DEVICE_TAINT_RULES: &str = "DRADeviceTaintRules";
/// VolumeBinding scores nodes by the use of their storage.
pub const STORAGE_CAPACITY_SCORING: &str = "StorageCapacityScoring";
pub const SCHEDULER_ASYNC_PREEMPTION: &str = "SchedulerAsyncPreemption";

/// Plugins that a profile has by default while a gate is on, with the gate.
pub const GATED_PLUGINS: &[(&str, &str, i64)] = &[
    ("GangScheduling", GANG_SCHEDULING, 0),
    ("TopologyPlacementGenerator", TOPOLOGY_AWARE_WORKLOAD_SCHEDULING, 0),
    ("PodGroupPodsCount", TOPOLOGY_AWARE_WORKLOAD_SCHEDULING, 1),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Features(BTreeSet<&'static str>);

impl Features {
    /// Returns the gates that are on if these are given.
    pub fn of(values: &GateValues) -> Self {
        Self(feature_gates::enabled("kube-scheduler", values))
    }

    pub fn is_on(&self, gate: &str) -> bool {
        self.0.contains(gate)
    }
}

/// The defaults of Kubernetes.
impl Default for Features {
    fn default() -> Self {
        Self::of(&GateValues::new())
    }
}
