//! `Workload`, what the nodes have and the pods ask for.

use clap::ValueEnum;
use proto::meta::node_labels::{HOSTNAME, ZONE};
use serde_json::{Value, json};

const ZONES: usize = 3;
/// Number of groups of pods that attract each other.
const GROUPS: usize = 10;
/// Part of the nodes, in percent, that a group of pods that share no node fills.
const FILLED_PERCENT: usize = 80;
/// Pods of low priority that fill each node before pods of high priority come.
const FILLERS_PER_NODE: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// CPU and memory.
    Basic,
    /// A zone by node affinity.
    NodeAffinity,
    /// The zone of its group.
    Affinity,
    /// A node without pods of its group.
    AntiAffinity,
    /// Rather the zone of its group.
    PreferredAffinity,
    /// Rather a node without pods of its group.
    PreferredAntiAffinity,
    /// The zones evenly.
    Spread,
    /// Rather the zones evenly.
    PreferredSpread,
    /// Room that only pods of lower priority can make.
    Preemption,
    /// The same, with the zones evenly and no two pods of a group on a node.
    PreemptionSpread,
    /// A bound volume of its own.
    Volumes,
    /// A device of its own.
    Devices,
    /// More than any node has.
    Unschedulable,
    /// Pods of the first eight workloads in turn.
    Mixed,
}

const MIXED: [Workload; 8] = [
    Workload::Basic,
    Workload::NodeAffinity,
    Workload::Affinity,
    Workload::AntiAffinity,
    Workload::PreferredAffinity,
    Workload::PreferredAntiAffinity,
    Workload::Spread,
    Workload::PreferredSpread,
];

pub fn node(number: usize) -> Value {
    let name = name_of_node(number);
    let resources = json!({"cpu": "32", "memory": "256Gi", "pods": "250", "ephemeral-storage": "100Gi"});
    json!({
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: zone(number)}},
        "status": {"capacity": resources, "allocatable": resources},
    })
}

pub fn name_of_node(number: usize) -> String {
    format!("n-{number}")
}

/// Returns the name of the claim of a pod, be it of a volume or of a device.
pub fn claim_of(pod: usize) -> String {
    format!("claim-{pod}")
}

fn zone(number: usize) -> String {
    format!("zone-{}", number % ZONES)
}

impl Workload {
    /// Returns the pods that run before the measurement, each with the number of its node.
    pub fn present(self, nodes: usize) -> Vec<(Value, usize)> {
        if !matches!(self, Self::Preemption | Self::PreemptionSpread) {
            return Vec::new();
        }
        let filler = |number: usize| {
            let mut pod = pod(&format!("filler-{number}"), "8");
            pod["spec"]["priority"] = json!(0);
            (pod, number % nodes)
        };
        (0..nodes * FILLERS_PER_NODE).map(filler).collect()
    }

    pub fn pod(self, number: usize, nodes: usize, pods: usize) -> Value {
        let name = format!("p-{number}");
        let mut pod = pod(&name, "100m");
        let groups = match self {
            Self::Affinity | Self::PreferredAffinity => GROUPS,
            Self::AntiAffinity | Self::PreferredAntiAffinity | Self::PreemptionSpread => {
                pods.div_ceil((nodes * FILLED_PERCENT / 100).max(1))
            }
            _ => 1,
        };
        let labels = json!({"workload": format!("{self:?}"), "group": format!("g{}", number % groups)});
        let selector = json!({"matchLabels": labels});
        pod["metadata"]["labels"] = labels;
        let term = |key: &str| json!({"labelSelector": selector, "topologyKey": key});
        let required = |key: &str| json!({"requiredDuringSchedulingIgnoredDuringExecution": [term(key)]});
        let preferred = |key: &str| {
            let weighted = json!({"weight": 1, "podAffinityTerm": term(key)});
            json!({"preferredDuringSchedulingIgnoredDuringExecution": [weighted]})
        };
        let spread = |when: &str| json!([{"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": when, "labelSelector": selector}]);
        let spec = &mut pod["spec"];
        match self {
            Self::Basic => {}
            Self::NodeAffinity => {
                let expression = json!({"key": ZONE, "operator": "In", "values": [zone(0), zone(1)]});
                let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [expression]}]});
                spec["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
            }
            Self::Affinity => spec["affinity"] = json!({"podAffinity": required(ZONE)}),
            Self::AntiAffinity => spec["affinity"] = json!({"podAntiAffinity": required(HOSTNAME)}),
            Self::PreferredAffinity => spec["affinity"] = json!({"podAffinity": preferred(ZONE)}),
            Self::PreferredAntiAffinity => spec["affinity"] = json!({"podAntiAffinity": preferred(HOSTNAME)}),
            Self::Spread => spec["topologySpreadConstraints"] = spread("DoNotSchedule"),
            Self::PreferredSpread => spec["topologySpreadConstraints"] = spread("ScheduleAnyway"),
            Self::Preemption => {
                spec["priority"] = json!(1000);
                spec["containers"][0]["resources"]["requests"]["cpu"] = json!("8");
            }
            Self::PreemptionSpread => {
                spec["priority"] = json!(1000);
                spec["containers"][0]["resources"]["requests"]["cpu"] = json!("8");
                spec["affinity"] = json!({"podAntiAffinity": required(HOSTNAME)});
                spec["topologySpreadConstraints"] = spread("DoNotSchedule");
            }
            Self::Volumes => {
                let claim = json!({"claimName": claim_of(number)});
                spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": claim}]);
            }
            Self::Devices => {
                spec["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": claim_of(number)}]);
            }
            Self::Unschedulable => spec["containers"][0]["resources"]["requests"]["cpu"] = json!("64"),
            Self::Mixed => return MIXED[number % MIXED.len()].pod(number, nodes, pods.div_ceil(MIXED.len())),
        }
        pod
    }
}

/// Returns a pod that asks for CPU and memory.
fn pod(name: &str, cpu: &str) -> Value {
    let requests = json!({"cpu": cpu, "memory": "500Mi"});
    json!({
        "metadata": {"namespace": "default", "name": name, "uid": name},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}],
        },
    })
}
