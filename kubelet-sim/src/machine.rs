//! The simulated machine under a node: its name, address, hardware and identifiers.
//!
//! Corresponds to what cadvisor and the operating system report to a kubelet. Everything follows from the settings
//! and the node's number, so a machine stays the same when its agent restarts.

use crate::config::{CloudProvider, Settings};
use crate::template::DeviceGroup;
use ipnet::{IpNet, Ipv4Net};
use pod_life::images::fingerprint;
use pod_life::numa::NumaAmount;
use proto::kinds::api::core::v1::{NodeSystemInfo, Taint};
use proto::kinds::apimachinery::api::resource::Quantity;
use proto::meta::node_labels;
use proto::meta::quantity::Quantity as Amount;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Network of the nodes' IPv6 addresses, in a dual-stack cluster.
const SECOND_NODE_NETWORK: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x172, 0x18, 0, 0, 0, 0, 0);

/// Size of a fallback range: that of the ranges that a controller manager gives by default.
const FALLBACK_PREFIX_LEN: u8 = 24;

/// The simulated machine of one node.
#[derive(Clone, Debug)]
pub struct Machine {
    pub name: String,
    pub address: Ipv4Addr,
    /// The second address, in a dual-stack cluster.
    address_v6: Ipv6Addr,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Images that are on the disk from the start.
    pub images: Vec<String>,
    /// Range of its pods that the node registers with; `None` while the control plane gives it one.
    pub pod_range: Option<Ipv4Net>,
    pub capacity: BTreeMap<String, Quantity>,
    /// The part of the capacity that is left for pods.
    pub allocatable: BTreeMap<String, Quantity>,
    /// The memory that is reserved for daemons; they use all of it.
    pub reserved_memory_bytes: i64,
    /// The port of the node's agent, as its status says.
    pub port: u16,
    /// The address at which the agent really listens; `None` when it serves nothing.
    pub agent_endpoint: Option<String>,
    pub system: NodeSystemInfo,
    /// Range of its pods while the control plane gives it none; `None` past the end of `--fallback-pod-cidr`.
    pub fallback_pod_range: Option<Ipv4Net>,
    /// Taints that it is registered with.
    pub taints: Vec<Taint>,
    /// True when a cloud controller must identify the machine before pods are scheduled to it.
    pub is_in_cloud: bool,
    pub provider_id: Option<String>,
    /// The handlers of its container runtimes, beside the default one.
    pub runtime_handlers: Vec<String>,
    /// What its kubelet can do that older ones cannot, sorted.
    pub declared_features: Vec<&'static str>,
    pub max_reported_images: usize,
    /// Devices that drivers on the machine offer.
    pub devices: Vec<DeviceGroup>,
}

fn v4(ip: &IpAddr) -> Option<Ipv4Addr> {
    if let IpAddr::V4(ip) = ip { Some(*ip) } else { None }
}

fn v6(ip: &IpAddr) -> Option<Ipv6Addr> {
    if let IpAddr::V6(ip) = ip { Some(*ip) } else { None }
}

impl Machine {
    pub fn new(settings: &Settings, number: u32) -> Self {
        Self::named(settings, number, settings.node_name(number))
    }

    /// Returns the machine with this number under a name of its own.
    pub fn named(settings: &Settings, number: u32, name: String) -> Self {
        // The first addresses of the range are the network's and its gateway's.
        let address = Ipv4Addr::from(u32::from(settings.node_cidr.network()).wrapping_add(number + 2));
        let address_v6 = Ipv6Addr::from(u128::from(SECOND_NODE_NETWORK) + u128::from(number) + 2);
        let capacity = capacity(settings);
        Self {
            labels: labels(settings, &name, number),
            annotations: BTreeMap::new(),
            images: Vec::new(),
            pod_range: None,
            allocatable: allocatable(settings, &capacity),
            capacity,
            reserved_memory_bytes: reserved_milli(settings, "memory") / 1000,
            taints: settings.register_with_taints.clone(),
            port: settings.port,
            agent_endpoint: settings.agent_endpoint.clone(),
            system: system(&name, &settings.version),
            fallback_pod_range: fallback_pod_range(settings.fallback_pod_cidr, number),
            is_in_cloud: settings.cloud_provider == CloudProvider::External,
            provider_id: Some(settings.provider_id.clone()).filter(|id| !id.is_empty()),
            runtime_handlers: settings.runtime_handlers.clone(),
            declared_features: declared_features(settings),
            max_reported_images: usize::try_from(settings.node_status_max_images).unwrap_or(usize::MAX),
            devices: Vec::new(),
            name,
            address: settings.node_ip.iter().find_map(v4).unwrap_or(address),
            address_v6: settings.node_ip.iter().find_map(v6).unwrap_or(address_v6),
        }
    }

    /// Returns the names of the drivers whose devices the machine has.
    pub fn drivers(&self) -> impl Iterator<Item = &str> {
        self.devices.iter().map(|group| group.driver.as_str()).collect::<BTreeSet<_>>().into_iter()
    }

    /// Returns what each NUMA node has for pods. The reserved CPUs are those of the first one, then those of the next.
    pub fn numa_amounts(&self, numa_nodes: u8, reserved_cpus: i64) -> Vec<NumaAmount> {
        let nodes = i64::from(numa_nodes.max(1));
        let mut reserved = reserved_cpus;
        let amount = |_| {
            let cpus = self.capacity_of("cpu") / nodes;
            let taken = reserved.min(cpus);
            reserved -= taken;
            NumaAmount { cpus: cpus - taken, memory_bytes: self.memory_for_pods() / nodes }
        };
        (0..nodes).map(amount).collect()
    }

    fn memory_for_pods(&self) -> i64 {
        self.allocatable
            .get("memory")
            .and_then(|memory| Amount::parse(&memory.0).ok())
            .map_or(0, |memory| memory.value())
    }

    /// Returns the capacity of a resource, in its unit; 0 of one that the machine does not have.
    pub fn capacity_of(&self, resource: &str) -> i64 {
        let quantity = self.capacity.get(resource).and_then(|quantity| Amount::parse(&quantity.0).ok());
        quantity.map_or(0, |quantity| quantity.value())
    }

    /// Returns an address of each family that its pods have, in the same order.
    pub fn addresses(&self, pod_ranges: &[IpNet]) -> Vec<IpAddr> {
        let of_family = |range: &IpNet| match range {
            IpNet::V4(_) => IpAddr::V4(self.address),
            IpNet::V6(_) => IpAddr::V6(self.address_v6),
        };
        if pod_ranges.is_empty() { vec![IpAddr::V4(self.address)] } else { pod_ranges.iter().map(of_family).collect() }
    }
}

/// Returns the fallback range of a node. It follows from the number alone, so no two nodes share one, even in different
/// processes.
fn fallback_pod_range(whole: Ipv4Net, number: u32) -> Option<Ipv4Net> {
    let first = u32::from(whole.network()).checked_add(number.checked_mul(1 << (32 - FALLBACK_PREFIX_LEN))?)?;
    let range = Ipv4Net::new(first.into(), FALLBACK_PREFIX_LEN).ok()?;
    whole.contains(&range).then_some(range)
}

/// Returns the labels that a kubelet gives its own node, and those of its zone and region.
fn labels(settings: &Settings, name: &str, number: u32) -> BTreeMap<String, String> {
    let mut labels: BTreeMap<String, String> = [
        (node_labels::BETA_ARCH, "amd64"),
        (node_labels::BETA_OS, "linux"),
        (node_labels::ARCH, "amd64"),
        (node_labels::HOSTNAME, name),
        (node_labels::OS, "linux"),
        (node_labels::INSTANCE_TYPE, &settings.instance_type),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    if !settings.zones.is_empty() {
        let zone = &settings.zones[number as usize % settings.zones.len()];
        labels.insert(node_labels::REGION.to_owned(), settings.region.clone());
        labels.insert(node_labels::ZONE.to_owned(), zone.clone());
    }
    labels.extend(settings.node_labels.iter().cloned());
    labels
}

fn capacity(settings: &Settings) -> BTreeMap<String, Quantity> {
    let cores = Amount::parse(&settings.cpu).unwrap_or(Amount::ZERO).milli_value() / 1000;
    let by_cores = i64::from(settings.pods_per_core) * cores.max(1);
    let pods = match settings.pods_per_core {
        0 => i64::from(settings.max_pods),
        _ => by_cores.min(i64::from(settings.max_pods)),
    };
    let pods = pods.to_string();
    let own = [
        ("cpu", settings.cpu.as_str()),
        ("ephemeral-storage", &settings.ephemeral_storage),
        ("hugepages-1Gi", "0"),
        ("hugepages-2Mi", "0"),
        ("memory", &settings.memory),
        ("pods", &pods),
    ];
    let further = settings.extended_resources.iter().map(|(name, quantity)| (name.as_str(), quantity.as_str()));
    own.into_iter().chain(further).map(|(name, quantity)| (name.to_owned(), Quantity(quantity.to_owned()))).collect()
}

/// Returns what is reserved of a resource for daemons, in thousandths.
fn reserved_milli(settings: &Settings, name: &str) -> i64 {
    let reserved = settings.kube_reserved.iter().chain(&settings.system_reserved).filter(|(of, _)| of == name);
    reserved.map(|(_, amount)| Amount::parse(amount).unwrap_or(Amount::ZERO).milli_value()).sum()
}

/// Returns the capacity without what is reserved and what must stay free; at least zero.
fn allocatable(settings: &Settings, capacity: &BTreeMap<String, Quantity>) -> BTreeMap<String, Quantity> {
    let parse = |text: &str| Amount::parse(text).unwrap_or(Amount::ZERO);
    let left = |name: &str, quantity: &Quantity| {
        let whole = parse(&quantity.0);
        let reserved_milli = reserved_milli(settings, name);
        let kept_free: i64 = settings.eviction_hard.iter().map(|(signal, t)| kept_free(name, signal, t, &whole)).sum();
        if reserved_milli == 0 && kept_free == 0 {
            return quantity.clone();
        }
        let left_milli = (whole.milli_value() - reserved_milli - kept_free * 1000).max(0);
        let left = match left_milli % 1000 {
            0 => Amount::new(left_milli / 1000, whole.format()),
            _ => Amount::from_milli(left_milli, whole.format()),
        };
        Quantity(left.to_string())
    };
    capacity.iter().map(|(name, quantity)| (name.clone(), left(name, quantity))).collect()
}

/// Returns what a hard eviction threshold keeps free of a resource, in bytes.
fn kept_free(name: &str, signal: &str, threshold: &str, capacity: &Amount) -> i64 {
    if !matches!((name, signal), ("memory", "memory.available") | ("ephemeral-storage", "nodefs.available")) {
        return 0;
    }
    match threshold.strip_suffix('%').and_then(|percent| percent.parse::<f64>().ok()) {
        Some(percent) => (capacity.as_f64() * percent / 100.0) as i64,
        None => Amount::parse(threshold).map_or(0, |amount| amount.value()),
    }
}

/// Returns the features of k8s.io/component-helpers/nodedeclaredfeatures that a kubelet of v1.36 declares.
fn declared_features(settings: &Settings) -> Vec<&'static str> {
    let mut features = vec![
        "ExtendWebSocketsToKubelet",
        "InPlacePodLevelResourcesVerticalScaling",
        "InPlacePodVerticalScalingInitContainers",
        "RestartAllContainersOnContainerExits",
    ];
    // Whole CPUs of a pod cannot be changed while it runs.
    if settings.cpu_manager_policy == "none" {
        features.push("GuaranteedQoSPodCPUResize");
    }
    features.sort_unstable();
    features
}

fn system(name: &str, version: &str) -> NodeSystemInfo {
    let uuid = |what: &str| {
        let hex = fingerprint(&["machine", what, name]);
        format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..32])
    };
    NodeSystemInfo {
        architecture: "amd64".to_owned(),
        boot_id: uuid("boot"),
        container_runtime_version: "containerd://2.2.0".to_owned(),
        kernel_version: "6.12.0-orrery".to_owned(),
        kubelet_version: version.to_owned(),
        machine_id: fingerprint(&["machine", "id", name])[..32].to_owned(),
        operating_system: "linux".to_owned(),
        os_image: "Orrery simulated machine".to_owned(),
        system_uuid: uuid("system"),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_says_the_version_that_its_kubelet_reports() {
        let version = |settings: &Settings| Machine::new(settings, 0).system.kubelet_version;
        assert_eq!(version(&Settings::default()), "v1.36.2");
        assert_eq!(version(&Settings { version: "v1.36.2-lab".into(), ..Settings::default() }), "v1.36.2-lab");
    }

    #[test]
    fn no_two_nodes_fall_back_to_the_same_range() {
        let range = |cidr: &str, number| {
            fallback_pod_range(cidr.parse().unwrap(), number).map_or("none".to_owned(), |range| range.to_string())
        };
        let of_the_default = |number| range(&Settings::default().fallback_pod_cidr.to_string(), number);
        assert_eq!(
            [0, 1, 255, 256, 16_383, 16_384, u32::MAX].map(of_the_default),
            ["100.64.0.0/24", "100.64.1.0/24", "100.64.255.0/24", "100.65.0.0/24", "100.127.255.0/24", "none", "none"]
        );
        assert_eq!([0, 1, 2].map(|n| range("10.1.2.0/23", n)), ["10.1.2.0/24", "10.1.3.0/24", "none"]);
        assert_eq!([range("10.1.2.0/25", 0), range("255.255.255.0/24", 1)], ["none", "none"]);
    }

    #[test]
    fn pods_get_what_is_neither_reserved_nor_kept_free() {
        let pairs = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let allocatable = |settings: &Settings| {
            let machine = Machine::new(settings, 0);
            ["cpu", "memory", "ephemeral-storage", "pods"].map(|name| machine.allocatable[name].0.clone())
        };
        assert_eq!(allocatable(&Settings::default()), ["8", "32668Mi", "90Gi", "110"]);
        let reserving = Settings {
            kube_reserved: pairs(&[("cpu", "100m"), ("memory", "1Gi")]),
            system_reserved: pairs(&[("cpu", "150m"), ("ephemeral-storage", "200Gi")]),
            eviction_hard: pairs(&[("memory.available", "0.5%"), ("nodefs.inodesFree", "5%")]),
            memory: "2000Mi".to_owned(),
            ..Settings::default()
        };
        assert_eq!(allocatable(&reserving), ["7750m", "966Mi", "0", "110"]);
    }

    #[test]
    fn one_node_may_have_addresses_of_its_own() {
        let settings = |ips: &[&str], nodes| Settings {
            nodes,
            node_ip: ips.iter().map(|ip| ip.parse().unwrap()).collect(),
            ..Settings::default()
        };
        let ranges: Vec<IpNet> = ["10.244.0.0/24", "fd00:1::/64"].map(|range| range.parse().unwrap()).to_vec();
        let shown = |ips: &[&str]| {
            let addresses = Machine::new(&settings(ips, 1), 0).addresses(&ranges);
            addresses.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(shown(&["192.0.2.7"]), ["192.0.2.7", "fd00:172:18::2"]);
        assert_eq!(shown(&["2001:db8::7", "192.0.2.7"]), ["192.0.2.7", "2001:db8::7"]);
        let refused = |ips: &[&str], nodes| settings(ips, nodes).check().unwrap_err().to_string();
        assert!(refused(&["192.0.2.7"], 2).starts_with("--node-ip: it is about one node"));
        assert!(refused(&["192.0.2.7", "192.0.2.8"], 1).contains("a single IP or a dual-stack pair"));
    }
}
