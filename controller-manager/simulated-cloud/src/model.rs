//! What the cloud holds: machines, node groups, load balancers, routes, and its settings. These are also the bodies of its API.
//!
//! Corresponds to InstanceMetadata, LoadBalancerStatus and Route in k8s.io/cloud-provider/cloud.go.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Scheme of the machines' provider IDs.
pub const PROVIDER: &str = "orrery";

/// A virtual machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Machine {
    pub name: String,
    /// The node group that it belongs to.
    pub group: String,
    /// Number in the whole cloud, from which its addresses follow.
    pub number: u32,
    pub instance_type: String,
    pub zone: String,
    pub region: String,
    pub internal_address: Ipv4Addr,
    pub external_address: Option<Ipv4Addr>,
    pub power: Power,
    pub origin: Origin,
}

impl Machine {
    /// Returns the ID by which a Node names its machine.
    pub fn provider_id(&self) -> String {
        provider_id_of(&self.name)
    }
}

pub fn provider_id_of(machine: &str) -> String {
    format!("{PROVIDER}://{machine}")
}

/// Returns the name of the machine that a provider ID names; `None` if the ID is another provider's.
pub fn machine_of_provider_id(id: &str) -> Option<&str> {
    id.strip_prefix(PROVIDER)?.strip_prefix("://").filter(|name| !name.is_empty())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Power {
    Running,
    Stopped,
}

/// Who starts a machine's kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Origin {
    /// Whoever started the cloud also started the machine's kubelet.
    Start,
    /// A node group has grown: the kubelet starts because the machine is there.
    Scaled,
}

/// Machines of one kind, whose number can be changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeGroup {
    pub name: String,
    pub min: u32,
    pub max: u32,
    /// How many machines the command line asks for.
    pub initial: u32,
    pub instance_type: String,
}

/// A node group as the API shows it: the group, and how many machines it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SizedGroup {
    pub name: String,
    pub min: u32,
    pub max: u32,
    pub size: u32,
    pub instance_type: String,
}

/// The body of `PUT /v1/groups/NAME/size`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSize {
    pub size: u32,
}

/// The body of `PUT /v1/machines/NAME/power`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerChange {
    pub power: Power,
}

/// What a caller asks of a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadBalancerSpec {
    /// What it is for, in words for people.
    #[serde(default)]
    pub description: String,
    /// The address that it should have; `None` for any.
    #[serde(default)]
    pub requested_address: Option<Ipv4Addr>,
    pub ports: Vec<BalancedPort>,
    /// Networks from which clients may come.
    #[serde(default)]
    pub source_ranges: Vec<String>,
    /// Port of the backends that tells whether they have an endpoint; `None` if every backend is good.
    #[serde(default)]
    pub health_check_port: Option<u16>,
    /// Whether connections of one client go to one backend.
    #[serde(default)]
    pub is_sticky: bool,
    /// Names of machines.
    #[serde(default)]
    pub backends: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BalancedPort {
    pub name: String,
    pub protocol: String,
    pub port: u16,
    /// Port of the backends; `None` if the balancer reaches pods by itself.
    #[serde(default)]
    pub node_port: Option<u16>,
}

/// A load balancer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancer {
    pub name: String,
    pub address: Ipv4Addr,
    #[serde(flatten)]
    pub spec: LoadBalancerSpec,
}

/// The body of `PUT /v1/loadbalancers/NAME/backends`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backends {
    pub backends: Vec<String>,
}

/// A row of the route table: packets for the destination go to the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Route {
    pub name: String,
    pub destination: String,
    pub machine: String,
}

/// How the cloud behaves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Settings {
    /// How long each request takes.
    pub latency_ms: u64,
    /// Part of the requests that fail, from 0 to 1. Half of these have been carried out.
    pub fault_rate: f64,
    pub machine_quota: usize,
    pub load_balancer_quota: usize,
    pub route_quota: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { latency_ms: 0, fault_rate: 0.0, machine_quota: 1_000, load_balancer_quota: 100, route_quota: 1_000 }
    }
}

/// A list of the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Items<T> {
    pub items: Vec<T>,
}

/// Everything that the cloud holds, as its state file has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Holdings {
    pub settings: Settings,
    pub groups: BTreeMap<String, NodeGroup>,
    pub machines: BTreeMap<String, Machine>,
    pub load_balancers: BTreeMap<String, LoadBalancer>,
    pub routes: BTreeMap<String, Route>,
}
