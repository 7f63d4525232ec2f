//! Checks the pressures of a node: observes what is left, and carries out what the eviction manager decides.
//!
//! Corresponds to the loop of pkg/kubelet/eviction and to pkg/kubelet/images/image_gc_manager.go.

use crate::eviction::load::PodLoad;
use crate::eviction::manager::{Decision, EVICTED, EvictionSettings};
use crate::eviction::signal::{Observation, Observations, Resource, Signal};
use crate::fleet::kubelet::SimulatedKubelet;
use crate::fleet::node_tasks;
use crate::image_gc::{self, ImageGcSettings};
use crate::node::Observed;
use client::{EventType, Regarding};
use component_base::env::Env;
use pod_life::conditions::is_terminal;
use pod_life::images;
use pod_life::memory::PodMemory;
use pod_life::notes::NodeTermination;
use pod_life::story::usage::{Requests, containers};
use proto::kinds::api::core::v1::Pod;
use proto::kinds::jiff::Timestamp;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How often a kubelet checks its thresholds.
pub const MONITORING_PERIOD: Duration = Duration::from_secs(10);
/// Processes that a node may have, and those that are not its pods'.
const MOST_PROCESSES: i64 = 32_768;
const SYSTEM_PROCESSES: i64 = 200;

/// The settings of a node's checks.
#[derive(Clone, Debug)]
pub struct PressureSettings {
    pub eviction: EvictionSettings,
    pub images: ImageGcSettings,
}

/// The result of a check.
#[derive(Debug, Default)]
pub struct Checked {
    /// True when the node's status has to be reported.
    pub changed: bool,
    /// The pods that are to end now.
    pub evicted: Vec<Arc<Pod>>,
    /// True when the node has to be checked again after `MONITORING_PERIOD`.
    pub goes_on: bool,
}

/// True for a pod whose usage changes with time, so that its node has to be watched.
pub fn is_watched(pod: &Pod) -> bool {
    let is_usage = |key: &String| {
        ["memory", "disk", "processes"].iter().any(|word| {
            let rest = key.strip_prefix(word);
            rest.is_some_and(|rest| rest.starts_with(".orrery.dev/")) || key.strip_prefix("orrery.dev/") == Some(*word)
        })
    };
    pod.metadata.annotations.iter().flat_map(|annotations| annotations.keys()).any(is_usage)
}

/// Checks a node once. `pods` are all pods that are bound to it.
pub fn check(
    kubelet: &SimulatedKubelet,
    settings: &PressureSettings,
    pods: &[Arc<Pod>],
    memory: &PodMemory,
    env: &Env,
) -> Checked {
    let (now, wall) = (env.now(), env.wall());
    let mut loads = Vec::new();
    let (mut is_ending, mut is_watched_node) = (false, false);
    let mut used_images = BTreeSet::new();
    for pod in pods {
        let (status, _) = memory.status_of(pod);
        if is_terminal(&status) {
            continue;
        }
        is_ending |= memory.is_being_terminated(pod);
        is_watched_node |= is_watched(pod);
        let containers_of = pod.spec.iter().flat_map(|s| s.containers.iter().chain(s.init_containers.iter().flatten()));
        used_images.extend(containers_of.filter_map(|c| c.image.as_deref()).map(images::canonical));
        // Requests cost CPU, of which no node runs short.
        let containers = containers(pod, &status, &|_, _| Requests::default(), wall);
        loads.push(PodLoad { pod: pod.clone(), containers });
    }
    let (decision, changed, is_idle) = kubelet.with_pressure(|observed, eviction| {
        let before = eviction.pressures().clone();
        let mut removed =
            image_gc::collect(&settings.images, disk(kubelet, observed, &loads), observed, &used_images, wall);
        let observations = observe(kubelet, observed, &loads);
        let all = loads.clone();
        let mut reclaim = |_: Resource| {
            removed |= image_gc::remove_unused(&settings.images, observed, &used_images, wall, i64::MAX);
            observe(kubelet, observed, &all)
        };
        let decision = eviction.synchronize(&settings.eviction, &observations, loads, is_ending, now, &mut reclaim);
        (decision, removed || *eviction.pressures() != before, eviction.is_idle())
    });
    report(kubelet, &decision, memory, wall);
    let evicted = decision.evictions.into_iter().map(|eviction| eviction.pod).collect();
    Checked { changed, evicted, goes_on: is_watched_node || !is_idle || kubelet.disk_filled_bytes() > 0 }
}

/// Records the events of a decision, and lets the evicted pods end.
fn report(kubelet: &SimulatedKubelet, decision: &Decision, memory: &PodMemory, now: Timestamp) {
    if let Some(resource) = decision.reclaims {
        node_tasks::record_warning(kubelet, "EvictionThresholdMet", &format!("Attempting to reclaim {resource}"));
    }
    for eviction in &decision.evictions {
        let message = &eviction.message;
        kubelet.recorder.event(&Regarding::of(&*eviction.pod), EventType::Warning, EVICTED, message);
        let termination = NodeTermination {
            asked_at: now,
            grace: eviction.grace,
            reason: EVICTED,
            message: message.clone(),
            disruption: eviction.is_disruption.then(|| message.clone()),
        };
        memory.terminate(&eviction.pod, termination);
    }
}

/// Returns what is left on the node. The daemons of a node use what is reserved for them; images and pods share one disk.
///
/// Deviation: inodes are not simulated, so the thresholds about them are never met.
fn observe(kubelet: &SimulatedKubelet, observed: &Observed, loads: &[PodLoad]) -> Observations {
    let used = |resource| loads.iter().map(|load| load.usage(resource)).sum::<i64>();
    let memory = kubelet.machine.capacity_of("memory");
    let reserved = kubelet.machine.reserved_memory_bytes;
    let of_pods = used(Resource::Memory);
    let left = |capacity: i64, used: i64| Observation { available: (capacity - used).max(0), capacity };
    let disk = disk(kubelet, observed, loads);
    [
        (Signal::MemoryAvailable, left(memory, reserved + of_pods)),
        (Signal::AllocatableMemoryAvailable, left(memory - reserved, of_pods)),
        (Signal::NodeFsAvailable, disk),
        (Signal::ImageFsAvailable, disk),
        (Signal::ContainerFsAvailable, disk),
        (Signal::PidAvailable, left(MOST_PROCESSES, SYSTEM_PROCESSES + used(Resource::Processes))),
    ]
    .into()
}

fn disk(kubelet: &SimulatedKubelet, observed: &Observed, loads: &[PodLoad]) -> Observation {
    let capacity = kubelet.machine.capacity_of("ephemeral-storage");
    let of_images: i64 = observed.images.values().map(|image| image.size_bytes).sum();
    let of_pods: i64 = loads.iter().map(|load| load.usage(Resource::Disk)).sum();
    let used = of_images + of_pods + kubelet.disk_filled_bytes();
    Observation { available: (capacity - used).max(0), capacity }
}
