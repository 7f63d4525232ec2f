//! `Dump`, the state of the cache and the queue, as a document and as lines of log.
//!
//! Corresponds to pkg/scheduler/backend/cache/debugger/dumper.go.

use crate::queue::SchedulingQueue;
use component_helpers::scheduling::requests::Resources;
use proto::Kind;
use scheduling_framework::Nominated;
use scheduling_framework::cache::{Cache, NodeInfo};
use scheduling_framework::pod_info::PodInfo;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDump {
    name: String,
    /// True for a node that is gone, but has pods.
    deleted: bool,
    requested: ResourceDump,
    allocatable: ResourceDump,
    pods: Vec<PodDump>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nominated_pods: Vec<PodDump>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceDump {
    #[serde(rename = "milliCPU")]
    milli_cpu: i64,
    memory: i64,
    ephemeral_storage: i64,
    allowed_pod_number: i64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    scalar_resources: BTreeMap<String, i64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodDump {
    name: String,
    namespace: String,
    uid: String,
    phase: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    nominated_node: String,
    /// The part of the queue, or `assumed`; empty for a pod that is bound.
    #[serde(skip_serializing_if = "str::is_empty")]
    state: &'static str,
}

#[derive(Debug, Serialize)]
pub struct QueueDump {
    pub summary: String,
    pub pods: Vec<PodDump>,
}

impl ResourceDump {
    fn of(resources: &Resources) -> Self {
        Self {
            milli_cpu: resources.milli_cpu,
            memory: resources.memory,
            ephemeral_storage: resources.ephemeral_storage,
            allowed_pod_number: resources.pods,
            scalar_resources: resources.scalar.clone(),
        }
    }
}

impl PodDump {
    fn of(pod: &PodInfo, state: &'static str) -> Self {
        let status = pod.pod.status.as_ref();
        Self {
            name: pod.pod.name().to_owned(),
            namespace: pod.namespace().to_owned(),
            uid: pod.uid().to_owned(),
            phase: status.and_then(|status| status.phase.clone()).unwrap_or_default(),
            nominated_node: pod.nominated_node_name().to_owned(),
            state,
        }
    }
}

/// Returns all nodes of the cache, with the pods that are nominated to them.
pub fn nodes(cache: &Cache, nominated: &Nominated) -> Vec<NodeDump> {
    let pod = |pod: &PodInfo| PodDump::of(pod, if cache.is_assumed(pod.uid()) { "assumed" } else { "" });
    let node = |(name, node): (&String, &std::sync::Arc<NodeInfo>)| NodeDump {
        name: name.clone(),
        deleted: node.node.is_none(),
        requested: ResourceDump::of(&node.requested),
        allocatable: ResourceDump::of(&node.allocatable),
        pods: node.pods.iter().map(|info| pod(info)).collect(),
        nominated_pods: nominated.on(name).map(|info| PodDump::of(info, "")).collect(),
    };
    cache.nodes().map(node).collect()
}

/// Returns all pods that wait in the queue.
pub fn queue(queue: &SchedulingQueue) -> QueueDump {
    let [active, backoff, unschedulable, gated] = queue.lengths();
    let summary = format!("activeQ:{active}; backoffQ:{backoff}; unschedulablePods:{}", unschedulable + gated);
    QueueDump { summary, pods: queue.pending().map(|(queued, part)| PodDump::of(&queued.info, part)).collect() }
}

impl fmt::Display for ResourceDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { milli_cpu, memory, ephemeral_storage, allowed_pod_number, scalar_resources } = self;
        let scalar: Vec<String> = scalar_resources.iter().map(|(name, amount)| format!("{name}:{amount}")).collect();
        write!(
            f,
            "{{MilliCPU:{milli_cpu} Memory:{memory} EphemeralStorage:{ephemeral_storage} \
             AllowedPodNumber:{allowed_pod_number} ScalarResources:map[{}]}}",
            scalar.join(" ")
        )
    }
}

impl fmt::Display for PodDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, namespace, uid, phase, nominated_node, .. } = self;
        write!(f, "name: {name}, namespace: {namespace}, uid: {uid}, phase: {phase}, nominated node: {nominated_node}")
    }
}

impl fmt::Display for NodeDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, deleted, requested, allocatable, pods, nominated_pods } = self;
        writeln!(f, "Node name: {name}\nDeleted: {deleted}")?;
        writeln!(f, "Requested Resources: {requested}\nAllocatable Resources: {allocatable}")?;
        writeln!(f, "Scheduled Pods(number: {}):", pods.len())?;
        pods.iter().try_for_each(|pod| writeln!(f, "{pod}"))?;
        if !nominated_pods.is_empty() {
            writeln!(f, "Nominated Pods(number: {}):", nominated_pods.len())?;
        }
        nominated_pods.iter().try_for_each(|pod| writeln!(f, "{pod}"))
    }
}
