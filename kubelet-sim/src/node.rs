//! The Node object: the one that registers a machine, and the status that it reports.
//!
//! Corresponds to pkg/kubelet/kubelet_node_status.go and pkg/kubelet/nodestatus/setters.go.

use crate::eviction::signal::Pressure;
use crate::machine::Machine;
use crate::machines::shutdown;
use component_base::dial::AGENT_ENDPOINT;
use ipnet::IpNet;
use pod_life::images;
use proto::kinds::api::core::v1::{
    ContainerImage, DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeFeatures,
    NodeRuntimeHandler, NodeRuntimeHandlerFeatures, NodeSpec, NodeStatus, Taint,
};
use proto::kinds::jiff::Timestamp;
use proto::kinds::metav1::{ObjectMeta, Time};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Key of the taint that a cloud controller removes once it has identified the machine.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Annotation for a cloud controller with the machine's address; on a kubelet it comes from `--node-ip`.
const PROVIDED_ADDRESS: &str = "alpha.kubernetes.io/provided-node-ip";

/// The message of kubelet and containerd while a node has no addresses for pods.
pub const NETWORK_NOT_READY: &str = "container runtime network not ready: NetworkReady=false \
     reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized";

/// Reason and message of each pressure condition: while it is absent, and while it is present.
const PRESSURES: [(Pressure, (&str, &str), (&str, &str)); 3] = [
    (
        Pressure::Memory,
        ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    ),
    (
        Pressure::Disk,
        ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("KubeletHasDiskPressure", "kubelet has disk pressure"),
    ),
    (
        Pressure::Pid,
        ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
    ),
];

/// The changing state of a node, on which its status depends besides its machine.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The ranges of the pods' addresses, one for each family; empty until they are known.
    pub pod_ranges: Vec<IpNet>,
    /// The images on the disk, by their full names.
    pub images: BTreeMap<String, StoredImage>,
    pub pressures: BTreeSet<Pressure>,
    /// Identifies the machine's last start; the machine's own until it was started again.
    pub boot_id: Option<String>,
    pub is_shutting_down: bool,
    /// The attachable volumes that pods use or are about to use.
    pub volumes_in_use: Vec<String>,
}

/// An image on a node's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredImage {
    pub size_bytes: i64,
    pub detected_at: Timestamp,
    pub last_used_at: Timestamp,
}

impl StoredImage {
    pub fn new(size_bytes: i64, now: Timestamp) -> Self {
        Self { size_bytes, detected_at: now, last_used_at: now }
    }
}

/// Returns the Node as a kubelet creates it.
pub fn registration(machine: &Machine, observed: &Observed, now: Timestamp) -> Node {
    let mut annotations: BTreeMap<String, String> =
        [("volumes.kubernetes.io/controller-managed-attach-detach".to_owned(), "true".to_owned())].into();
    annotations.extend(machine.annotations.clone());
    annotations.extend(machine.agent_endpoint.clone().map(|endpoint| (AGENT_ENDPOINT.to_owned(), endpoint)));
    let mut taints = machine.taints.clone();
    if machine.is_in_cloud {
        annotations.insert(PROVIDED_ADDRESS.to_owned(), machine.address.to_string());
        taints.push(Taint {
            key: UNINITIALIZED.to_owned(),
            value: Some("true".to_owned()),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        });
    }
    let taints = (!taints.is_empty()).then_some(taints);
    let pod_cidr = machine.pod_range.map(|range| range.to_string());
    let pod_cidrs = pod_cidr.clone().map(|range| vec![range]);
    let spec =
        NodeSpec { taints, provider_id: machine.provider_id.clone(), pod_cidr, pod_cidrs, ..NodeSpec::default() };
    Node {
        metadata: ObjectMeta {
            name: Some(machine.name.clone()),
            labels: Some(machine.labels.clone()),
            annotations: Some(annotations),
            ..Default::default()
        },
        spec: Some(spec),
        status: Some(status(machine, observed, &NodeStatus::default(), now)),
    }
}

/// Returns the patch for the node of an earlier run: labels that are missing or differ, and the address of its agent.
/// `None` when nothing differs.
pub fn metadata_patch(machine: &Machine, node: &Node) -> Option<Value> {
    let have = node.metadata.labels.as_ref();
    let differs = |(key, value): &(&String, &String)| have.and_then(|labels| labels.get(*key)) != Some(*value);
    let missing: Map<String, Value> =
        machine.labels.iter().filter(differs).map(|(key, value)| (key.clone(), value.clone().into())).collect();
    let endpoint = node.metadata.annotations.as_ref().and_then(|annotations| annotations.get(AGENT_ENDPOINT));
    let mut metadata = Map::new();
    if !missing.is_empty() {
        metadata.insert("labels".to_owned(), missing.into());
    }
    if endpoint != machine.agent_endpoint.as_ref() {
        metadata.insert("annotations".to_owned(), json!({AGENT_ENDPOINT: machine.agent_endpoint}));
    }
    (!metadata.is_empty()).then(|| json!({"metadata": metadata}))
}

/// Returns the node's internal addresses, the primary one first; pods in the host's network have the same.
pub fn internal_ips(node: &Node) -> Vec<IpAddr> {
    let addresses = node.status.as_ref().and_then(|status| status.addresses.as_deref()).unwrap_or_default();
    let internal = addresses.iter().filter(|address| address.type_ == "InternalIP");
    internal.filter_map(|found| found.address.parse().ok()).collect()
}

/// Returns the status that a node in this state reports. A condition's transition time changes only with its value.
pub fn status(machine: &Machine, observed: &Observed, previous: &NodeStatus, now: Timestamp) -> NodeStatus {
    let address = |type_: &str, address: String| NodeAddress { type_: type_.to_owned(), address };
    let mut status = previous.clone();
    status.capacity = Some(machine.capacity.clone());
    status.allocatable = Some(machine.allocatable.clone());
    // In a cloud, the cloud controller decides the addresses.
    if !machine.is_in_cloud || previous.addresses.as_ref().is_none_or(Vec::is_empty) {
        let internal =
            machine.addresses(&observed.pod_ranges).into_iter().map(|ip| address("InternalIP", ip.to_string()));
        status.addresses = Some(internal.chain([address("Hostname", machine.name.clone())]).collect());
    }
    let endpoint = DaemonEndpoint { port: i32::from(machine.port) };
    status.daemon_endpoints = Some(NodeDaemonEndpoints { kubelet_endpoint: Some(endpoint) });
    let mut system = machine.system.clone();
    system.boot_id = observed.boot_id.clone().unwrap_or(system.boot_id);
    status.node_info = Some(system);
    let handlers = std::iter::once("").chain(machine.runtime_handlers.iter().map(String::as_str));
    status.runtime_handlers = Some(handlers.map(runtime_handler).collect());
    status.declared_features = Some(machine.declared_features.iter().map(ToString::to_string).collect());
    status.features = Some(NodeFeatures { supplemental_groups_policy: Some(true) });
    status.images = reported_images(&observed.images, machine.max_reported_images);
    status.volumes_in_use = (!observed.volumes_in_use.is_empty()).then(|| observed.volumes_in_use.clone());

    let conditions = status.conditions.get_or_insert_default();
    let ready = match (observed.is_shutting_down, observed.pod_ranges.is_empty()) {
        (true, _) => ("Ready", "False", "KubeletNotReady", shutdown::NOT_READY),
        (_, true) => ("Ready", "False", "KubeletNotReady", NETWORK_NOT_READY),
        (_, false) => ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    };
    for (pressure, absent, present) in PRESSURES {
        let is_present = observed.pressures.contains(&pressure);
        let (value, (reason, message)) = if is_present { ("True", present) } else { ("False", absent) };
        set_condition(conditions, &pressure.to_string(), value, reason, message, now);
    }
    let (type_, value, reason, message) = ready;
    set_condition(conditions, type_, value, reason, message, now);
    status
}

/// Returns the features of a runtime handler; the default handler has an empty name. The API server drops an empty
/// name, so it is not written: the status would always differ from the stored one.
fn runtime_handler(name: &str) -> NodeRuntimeHandler {
    let features = NodeRuntimeHandlerFeatures { recursive_read_only_mounts: Some(true), user_namespaces: Some(true) };
    NodeRuntimeHandler { name: (!name.is_empty()).then(|| name.to_owned()), features: Some(features) }
}

/// Returns the machine's new boot id when it was started again since the status was reported.
pub fn rebooted<'a>(previous: &NodeStatus, next: &'a NodeStatus) -> Option<&'a str> {
    let id = |status: &'_ NodeStatus| status.node_info.as_ref().map(|info| info.boot_id.clone()).unwrap_or_default();
    let (before, after) = (id(previous), next.node_info.as_ref()?.boot_id.as_str());
    (!before.is_empty() && before != after).then_some(after)
}

/// Returns the reasons of the events that a change of a node's status causes.
pub fn transitions(previous: &NodeStatus, next: &NodeStatus) -> Vec<&'static str> {
    let status = |of: &NodeStatus, type_: &str| {
        of.conditions.iter().flatten().find(|c| c.type_ == type_).map(|c| c.status.clone()).unwrap_or_default()
    };
    let mut reasons = Vec::new();
    for (type_, becomes_true, becomes_false) in [
        ("MemoryPressure", "NodeHasInsufficientMemory", "NodeHasSufficientMemory"),
        ("DiskPressure", "NodeHasDiskPressure", "NodeHasNoDiskPressure"),
        ("PIDPressure", "NodeHasInsufficientPID", "NodeHasSufficientPID"),
        ("Ready", "NodeReady", "NodeNotReady"),
    ] {
        let (before, after) = (status(previous, type_), status(next, type_));
        // A node that is not ready at first has not become so: no event.
        if before != after && !(type_ == "Ready" && before.is_empty()) {
            reasons.push(if after == "True" { becomes_true } else { becomes_false });
        }
    }
    reasons
}

fn set_condition(
    conditions: &mut Vec<NodeCondition>,
    type_: &str,
    value: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let known = conditions.iter().position(|c| c.type_ == type_);
    let since = known.map(|at| &conditions[at]).filter(|old| old.status == value);
    let condition = NodeCondition {
        type_: type_.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(Time(now)),
        last_transition_time: since.and_then(|old| old.last_transition_time.clone()).or(Some(Time(now))),
    };
    match known {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

/// Returns the largest images, as many as a node reports; those of one size by name.
fn reported_images(images: &BTreeMap<String, StoredImage>, at_most: usize) -> Option<Vec<ContainerImage>> {
    let mut largest: Vec<(&String, i64)> = images.iter().map(|(name, image)| (name, image.size_bytes)).collect();
    largest.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let image = |(name, size): (&String, i64)| ContainerImage {
        names: Some(images::reported_names(name)),
        size_bytes: Some(size),
    };
    (!images.is_empty()).then(|| largest.into_iter().take(at_most).map(image).collect())
}

/// True when anything but the times of conditions differs; such a change is reported at once.
pub fn differs(previous: &NodeStatus, next: &NodeStatus) -> bool {
    let without_heartbeats = |status: &NodeStatus| {
        let mut status = status.clone();
        for condition in status.conditions.iter_mut().flatten() {
            condition.last_heartbeat_time = None;
            condition.last_transition_time = None;
        }
        status
    };
    without_heartbeats(previous) != without_heartbeats(next)
}

/// Returns a strategic merge patch for the `status` subresource with the fields that differ, null for those that are no
/// longer there. Conditions merge by type, so it never contains conditions that are not the kubelet's.
pub fn status_patch(stored: &Value, wanted: &Value) -> Option<Value> {
    let (stored, wanted) = (stored.as_object()?, wanted.as_object()?);
    let mut changes: Map<String, Value> = wanted
        .iter()
        .filter(|(field, value)| stored.get(*field) != Some(value))
        .map(|(field, value)| (field.clone(), value.clone()))
        .collect();
    let gone = stored.keys().filter(|field| !wanted.contains_key(*field));
    changes.extend(gone.map(|field| (field.clone(), Value::Null)));
    if let (Some(Value::Array(next)), Some(Value::Array(old))) =
        (changes.get_mut("conditions"), stored.get("conditions"))
    {
        next.retain(|condition| !old.contains(condition));
    }
    // Addresses merge by type too, but two may have the same type: the patch replaces the whole list.
    if let Some(Value::Array(addresses)) = changes.get_mut("addresses") {
        addresses.insert(0, json!({"$patch": "replace"}));
    }
    (!changes.is_empty()).then(|| json!({"status": changes}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{CloudProvider, Settings};
    use expect_test::expect;
    use proto::Kind;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    #[test]
    fn a_node_registers() {
        let settings = Settings { zones: vec!["a".into(), "b".into()], ..Default::default() };
        let node = registration(&Machine::new(&settings, 1), &Observed::default(), at(0));
        expect![[r#"
            {
              "apiVersion": "v1",
              "kind": "Node",
              "metadata": {
                "annotations": {
                  "volumes.kubernetes.io/controller-managed-attach-detach": "true"
                },
                "labels": {
                  "beta.kubernetes.io/arch": "amd64",
                  "beta.kubernetes.io/os": "linux",
                  "kubernetes.io/arch": "amd64",
                  "kubernetes.io/hostname": "node-1",
                  "kubernetes.io/os": "linux",
                  "node.kubernetes.io/instance-type": "orrery.simulated",
                  "topology.kubernetes.io/region": "orrery",
                  "topology.kubernetes.io/zone": "b"
                },
                "name": "node-1"
              },
              "spec": {},
              "status": {
                "addresses": [
                  {
                    "address": "172.18.0.3",
                    "type": "InternalIP"
                  },
                  {
                    "address": "node-1",
                    "type": "Hostname"
                  }
                ],
                "allocatable": {
                  "cpu": "8",
                  "ephemeral-storage": "90Gi",
                  "hugepages-1Gi": "0",
                  "hugepages-2Mi": "0",
                  "memory": "32668Mi",
                  "pods": "110"
                },
                "capacity": {
                  "cpu": "8",
                  "ephemeral-storage": "100Gi",
                  "hugepages-1Gi": "0",
                  "hugepages-2Mi": "0",
                  "memory": "32Gi",
                  "pods": "110"
                },
                "conditions": [
                  {
                    "lastHeartbeatTime": "2026-01-01T00:00:00Z",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "message": "kubelet has sufficient memory available",
                    "reason": "KubeletHasSufficientMemory",
                    "status": "False",
                    "type": "MemoryPressure"
                  },
                  {
                    "lastHeartbeatTime": "2026-01-01T00:00:00Z",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "message": "kubelet has no disk pressure",
                    "reason": "KubeletHasNoDiskPressure",
                    "status": "False",
                    "type": "DiskPressure"
                  },
                  {
                    "lastHeartbeatTime": "2026-01-01T00:00:00Z",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "message": "kubelet has sufficient PID available",
                    "reason": "KubeletHasSufficientPID",
                    "status": "False",
                    "type": "PIDPressure"
                  },
                  {
                    "lastHeartbeatTime": "2026-01-01T00:00:00Z",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "message": "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized",
                    "reason": "KubeletNotReady",
                    "status": "False",
                    "type": "Ready"
                  }
                ],
                "daemonEndpoints": {
                  "kubeletEndpoint": {
                    "Port": 10250
                  }
                },
                "declaredFeatures": [
                  "ExtendWebSocketsToKubelet",
                  "GuaranteedQoSPodCPUResize",
                  "InPlacePodLevelResourcesVerticalScaling",
                  "InPlacePodVerticalScalingInitContainers",
                  "RestartAllContainersOnContainerExits"
                ],
                "features": {
                  "supplementalGroupsPolicy": true
                },
                "nodeInfo": {
                  "architecture": "amd64",
                  "bootID": "28049862-9716-4172-8833-f527fe1ea5aa",
                  "containerRuntimeVersion": "containerd://2.2.0",
                  "kernelVersion": "6.12.0-orrery",
                  "kubeProxyVersion": "",
                  "kubeletVersion": "v1.36.2",
                  "machineID": "8e0aa7400ff3fd6618184ab7f220f6f2",
                  "operatingSystem": "linux",
                  "osImage": "Orrery simulated machine",
                  "systemUUID": "39b91177-abb9-47f9-89b6-133011660774"
                },
                "runtimeHandlers": [
                  {
                    "features": {
                      "recursiveReadOnlyMounts": true,
                      "userNamespaces": true
                    }
                  },
                  {
                    "features": {
                      "recursiveReadOnlyMounts": true,
                      "userNamespaces": true
                    },
                    "name": "runc"
                  }
                ]
              }
            }"#]].assert_eq(&serde_json::to_string_pretty(&node.encode()).unwrap());
    }

    #[test]
    fn a_node_of_a_cloud_waits_for_it_and_leaves_its_addresses_alone() {
        let machine = |cloud_provider| Machine::new(&Settings { cloud_provider, ..Default::default() }, 1);
        let (own, of_cloud) = (machine(CloudProvider::None), machine(CloudProvider::External));
        let node = registration(&of_cloud, &Observed::default(), at(0));
        let taint = json!([{"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"}]);
        assert_eq!(node.encode()["spec"]["taints"], taint);
        assert_eq!(node.encode()["metadata"]["annotations"][PROVIDED_ADDRESS], "172.18.0.3");

        assert_eq!(internal_ips(&node), [of_cloud.address]);
        let mut known = node.status.unwrap();
        let first = json!([{"type": "InternalIP", "address": "172.18.0.3"}, {"type": "Hostname", "address": "node-1"}]);
        assert_eq!(json!(known.addresses), first);
        known.addresses.as_mut().unwrap()[0].address = "10.9.8.7".to_owned();
        for (machine, address) in [(&of_cloud, "10.9.8.7"), (&own, "172.18.0.3")] {
            let reported = status(machine, &Observed::default(), &known, at(10)).addresses.unwrap();
            assert_eq!(reported[0].address, address, "{:?}", machine.is_in_cloud);
        }
    }

    #[test]
    fn transitions_are_told() {
        let machine = Machine::new(&Settings::default(), 0);
        let mut observed = Observed::default();
        let first = status(&machine, &observed, &NodeStatus::default(), at(0));
        let healthy = ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"];
        assert_eq!(transitions(&NodeStatus::default(), &first), healthy);
        observed.pod_ranges = vec!["10.244.0.0/24".parse().unwrap()];
        let ready = status(&machine, &observed, &first, at(10));
        assert_eq!(transitions(&first, &ready), ["NodeReady"]);
        assert_eq!(transitions(&ready, &status(&machine, &observed, &ready, at(20))), [""; 0]);
        assert_eq!(transitions(&ready, &first), ["NodeNotReady"]);
        observed.pressures.insert(Pressure::Memory);
        let low = status(&machine, &observed, &ready, at(30));
        assert_eq!(transitions(&ready, &low), ["NodeHasInsufficientMemory"]);
        let memory = &low.conditions.unwrap()[0];
        assert_eq!(memory.message.as_deref(), Some("kubelet has insufficient memory available"));
    }

    #[test]
    fn a_report_is_due_when_something_has_changed() {
        let machine = Machine::new(&Settings::default(), 0);
        let mut observed = Observed::default();
        let first = status(&machine, &observed, &NodeStatus::default(), at(0));
        let later = status(&machine, &observed, &first, at(10));
        assert!(!differs(&first, &later), "heartbeats alone are no change");

        observed.pod_ranges = vec!["10.244.0.0/24".parse().unwrap()];
        observed.images.insert("docker.io/library/nginx:latest".into(), StoredImage::new(42, at(20)));
        let ready = status(&machine, &observed, &later, at(20));
        assert!(differs(&later, &ready));
        let of = |status: &NodeStatus| serde_json::to_value(status).unwrap();
        let patch = status_patch(&of(&first), &of(&ready)).unwrap();
        expect![[r#"
            {
              "status": {
                "conditions": [
                  {
                    "lastHeartbeatTime": "2026-01-01T00:00:20Z",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "message": "kubelet has sufficient memory available",
                    "reason": "KubeletHasSufficientMemory",
                    "status": "False",
                    "type": "MemoryPressure"
                  },
                  {
                    "lastHeartbeatTime": "2026-01-01T00:00:20Z",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "message": "kubelet has no disk pressure",
                    "reason": "KubeletHasNoDiskPressure",
                    "status": "False",
                    "type": "DiskPressure"
                  },
                  {
                    "lastHeartbeatTime": "2026-01-01T00:00:20Z",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "message": "kubelet has sufficient PID available",
                    "reason": "KubeletHasSufficientPID",
                    "status": "False",
                    "type": "PIDPressure"
                  },
                  {
                    "lastHeartbeatTime": "2026-01-01T00:00:20Z",
                    "lastTransitionTime": "2026-01-01T00:00:20Z",
                    "message": "kubelet is posting ready status",
                    "reason": "KubeletReady",
                    "status": "True",
                    "type": "Ready"
                  }
                ],
                "images": [
                  {
                    "names": [
                      "docker.io/library/nginx@sha256:29b9f1ce52c8698d11f070439f67de09d6231783e26af99f6785b4b12bff843d",
                      "docker.io/library/nginx:latest"
                    ],
                    "sizeBytes": 42
                  }
                ]
              }
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&patch).unwrap());
    }

    #[test]
    fn only_missing_labels_are_patched() {
        let machine = Machine::new(&Settings::default(), 0);
        let mut node = registration(&machine, &Observed::default(), at(0));
        assert_eq!(metadata_patch(&machine, &node), None);
        let labels = node.metadata.labels.as_mut().unwrap();
        labels.remove("kubernetes.io/os");
        labels.insert("mine".into(), "kept".into());
        assert_eq!(
            metadata_patch(&machine, &node),
            Some(json!({"metadata": {"labels": {"kubernetes.io/os": "linux"}}}))
        );
    }
}
