//! Types with the fields of objects that the rules check.

use proto::meta::quantity::Quantity;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    pub uid: String,
    pub generation: i64,
    pub deletion_timestamp: Option<String>,
    pub owner_references: Vec<OwnerReference>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub finalizers: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct OwnerReference {
    pub uid: String,
    pub controller: bool,
}

impl Metadata {
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Returns the UID of the controlling owner.
    pub fn controller(&self) -> Option<&str> {
        self.owner_references.iter().find(|owner| owner.controller).map(|owner| owner.uid.as_str())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct AnyObject {
    pub metadata: Metadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub metadata: Metadata,
    pub spec: PodSpec,
    pub status: PodStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    pub node_name: String,
    pub host_network: bool,
    pub affinity: serde_json::Value,
    pub containers: Vec<Container>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Container {
    pub resources: Requests,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Requests {
    pub requests: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodStatus {
    pub phase: String,
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    pub conditions: Vec<Condition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub reason: String,
}

impl Pod {
    pub fn has_ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    pub fn has_condition(&self, kind: &str) -> bool {
        self.status.conditions.iter().any(|condition| condition.kind == kind && condition.status == "True")
    }

    /// Returns the node that the pod is on or, before it is scheduled, the one that a DaemonSet's pod names.
    pub fn target_node(&self) -> &str {
        const NAMED: &str = "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/\
                             matchFields/0/values/0";
        let named = self.spec.affinity.pointer(NAMED).and_then(serde_json::Value::as_str);
        if self.spec.node_name.is_empty() { named.unwrap_or_default() } else { &self.spec.node_name }
    }

    /// Returns the sum of the containers' requests in thousandths. No scenario has init containers or overhead.
    pub fn requested_milli(&self, resource: &str) -> i64 {
        let of = |container: &Container| container.resources.requests.get(resource).map_or(0, |text| milli(text));
        self.spec.containers.iter().map(of).sum()
    }
}

/// Returns a quantity in thousandths, or 0 if it is malformed.
pub fn milli(text: &str) -> i64 {
    Quantity::parse(text).map_or(0, |quantity| quantity.milli_value())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    pub status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    pub allocatable: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Service {
    pub spec: ServiceSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceSpec {
    #[serde(rename = "clusterIPs")]
    pub cluster_ips: Vec<String>,
    pub ports: Vec<ServicePort>,
    pub health_check_node_port: u16,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServicePort {
    pub node_port: u16,
    pub protocol: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceCidr {
    pub metadata: Metadata,
    pub spec: ServiceCidrSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceCidrSpec {
    pub cidrs: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceClaim {
    pub status: ResourceClaimStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceClaimStatus {
    pub allocation: serde_json::Value,
    pub reserved_for: Vec<Consumer>,
}

/// A device by its driver, pool and name.
#[derive(Debug, PartialEq, Eq)]
pub struct AllocatedDevice([String; 3]);

impl fmt::Display for AllocatedDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("/"))
    }
}

impl ResourceClaimStatus {
    /// Returns the devices of the allocation.
    pub fn devices(&self) -> Vec<AllocatedDevice> {
        let results = self.allocation.pointer("/devices/results").and_then(Value::as_array);
        let text = |result: &Value, field: &str| result[field].as_str().unwrap_or_default().to_owned();
        let device = |result: &Value| AllocatedDevice(["driver", "pool", "device"].map(|field| text(result, field)));
        results.into_iter().flatten().map(device).collect()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Consumer {
    pub uid: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Deployment {
    pub metadata: Metadata,
    pub spec: DeploymentSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeploymentSpec {
    pub replicas: i64,
    pub strategy: Strategy,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Strategy {
    pub rolling_update: RollingUpdate,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RollingUpdate {
    pub max_surge: serde_json::Value,
    pub max_unavailable: serde_json::Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct DaemonSet {
    pub metadata: Metadata,
    pub spec: DaemonSetSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DaemonSetSpec {
    pub update_strategy: Strategy,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReplicaSet {
    pub metadata: Metadata,
    pub spec: ReplicaSetSpec,
    pub status: ReplicaSetStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaSetStatus {
    pub available_replicas: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReplicaSetSpec {
    pub replicas: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct StatefulSet {
    pub metadata: Metadata,
    pub spec: StatefulSetSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StatefulSetSpec {
    pub pod_management_policy: String,
    pub ordinals: Ordinals,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Ordinals {
    pub start: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceQuota {
    pub status: ResourceQuotaStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceQuotaStatus {
    pub hard: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct DisruptionBudget {
    pub spec: DisruptionBudgetSpec,
    pub status: DisruptionBudgetStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DisruptionBudgetSpec {
    pub selector: Selector,
    pub min_available: serde_json::Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Selector {
    pub match_labels: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DisruptionBudgetStatus {
    pub disruptions_allowed: i64,
    /// Names of evicted pods, each with a time.
    pub disrupted_pods: BTreeMap<String, serde_json::Value>,
}
