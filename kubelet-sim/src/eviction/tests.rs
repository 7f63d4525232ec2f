//! Rounds of the eviction manager: which pressure there is, which pod goes, and what it is told.

use super::load::PodLoad;
use super::manager::{Decision, EvictionManager, EvictionSettings};
use super::rank::rank;
use super::signal::{Observation, Observations, Resource, Signal};
use super::threshold::{Amount, Threshold};
use component_base::env::Env;
use pod_life::story::usage::ContainerUsage;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const MI: i64 = 1 << 20;

/// A pod of one container that uses and requests these MiB of memory and disk.
fn load(name: &str, priority: i32, used: i64, requested: i64) -> PodLoad {
    let size = format!("{requested}Mi");
    let resources = json!({"requests": {"memory": size, "ephemeral-storage": size}});
    let resources = if requested == 0 { json!({}) } else { resources };
    custom(name, priority, used, resources)
}

fn custom(name: &str, priority: i32, used: i64, resources: Value) -> PodLoad {
    let pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name},
        "spec": {"priority": priority, "terminationGracePeriodSeconds": 20,
            "containers": [{"name": "c", "resources": resources}]},
    });
    let usage = ContainerUsage {
        name: "c".to_owned(),
        started_at: Timestamp::UNIX_EPOCH,
        cpu_cores: 0.0,
        cpu_seconds: 0.0,
        memory_bytes: (used * MI) as f64,
        disk_bytes: (used * MI) as f64,
        processes: used as f64,
    };
    PodLoad { pod: Arc::new(Pod::decode_value(pod).unwrap()), containers: vec![usage] }
}

fn threshold(signal: Signal, amount: &str, grace_s: u64) -> Threshold {
    let grace = Duration::from_secs(grace_s);
    Threshold { signal, amount: Amount::parse(amount).unwrap(), grace, min_reclaim: None }
}

/// A node with thresholds, in virtual time.
struct Node {
    settings: EvictionSettings,
    manager: EvictionManager,
    began: Instant,
    reclaimable: i64,
}

impl Node {
    fn with(thresholds: Vec<Threshold>) -> Self {
        let settings = EvictionSettings {
            thresholds,
            transition_period: Duration::from_secs(60),
            max_pod_grace: Duration::from_secs(90),
        };
        Self { settings, manager: EvictionManager::default(), began: Env::simulated(1).now(), reclaimable: 0 }
    }

    fn round(&mut self, at_s: u64, signal: Signal, available: i64, pods: &[PodLoad]) -> Decision {
        let observed = |available| -> Observations {
            [(signal, Observation { available: available * MI, capacity: 1000 * MI })].into()
        };
        let after = available + self.reclaimable;
        let now = self.began + Duration::from_secs(at_s);
        let mut reclaim = |_: Resource| observed(after);
        self.manager.synchronize(&self.settings, &observed(available), pods.to_vec(), false, now, &mut reclaim)
    }

    fn pressures(&self) -> Vec<String> {
        self.manager.pressures().iter().map(ToString::to_string).collect()
    }
}

fn names(pods: &[PodLoad]) -> Vec<String> {
    pods.iter().map(|load| load.pod.name().to_owned()).collect()
}

#[test]
fn pods_go_by_excess_then_priority_then_usage() {
    let pods = [
        load("modest", 0, 10, 100),
        load("best-effort", 5, 30, 0),
        load("greedy", 5, 300, 100),
        load("important", 1000, 500, 0),
        load("less-modest", 0, 90, 100),
    ];
    let ranked = |resource| {
        let mut pods = pods.to_vec();
        rank(&mut pods, resource);
        names(&pods)
    };
    let by_request = ["greedy", "best-effort", "important", "less-modest", "modest"];
    assert_eq!(ranked(Resource::Memory), by_request);
    assert_eq!(ranked(Resource::Disk), by_request);
    assert_eq!(ranked(Resource::Processes), ["less-modest", "modest", "greedy", "best-effort", "important"]);
}

#[tokio::test(start_paused = true)]
async fn a_hard_threshold_evicts_at_once_and_the_pressure_outlasts_it() {
    let mut node = Node::with(vec![threshold(Signal::MemoryAvailable, "100Mi", 0)]);
    let pods = [load("modest", 0, 10, 100), load("greedy", 0, 300, 100)];
    let decision = node.round(0, Signal::MemoryAvailable, 100, &pods);
    assert!(decision.evictions.is_empty() && node.pressures().is_empty(), "exactly the threshold is enough");

    let decision = node.round(10, Signal::MemoryAvailable, 50, &pods);
    assert_eq!((decision.reclaims, node.pressures()), (Some(Resource::Memory), vec!["MemoryPressure".to_owned()]));
    let [eviction] = &decision.evictions[..] else { panic!("{decision:?}") };
    assert_eq!((eviction.pod.name(), eviction.grace), ("greedy", Duration::from_secs(1)));
    assert_eq!(
        eviction.message,
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. Container c was using \
         300Mi, request is 100Mi, has larger consumption of memory. "
    );
    assert!(eviction.is_disruption);

    for (at_s, still) in [(20, true), (69, true), (70, false)] {
        let decision = node.round(at_s, Signal::MemoryAvailable, 500, &pods);
        assert_eq!((decision.evictions.len(), !node.pressures().is_empty()), (0, still), "{at_s} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_soft_threshold_must_last_and_leaves_time() {
    let mut node = Node::with(vec![threshold(Signal::MemoryAvailable, "10%", 30)]);
    let pods = [load("greedy", 0, 300, 100)];
    for (at_s, available, evicts) in
        [(0, 99, false), (20, 100, false), (30, 99, false), (50, 99, false), (60, 99, true)]
    {
        let decision = node.round(at_s, Signal::MemoryAvailable, available, &pods);
        assert_eq!(!decision.evictions.is_empty(), evicts, "{at_s} s");
        assert!(decision.evictions.iter().all(|eviction| eviction.grace == Duration::from_secs(20)), "the pod's own");
    }
}

#[tokio::test(start_paused = true)]
async fn disk_is_reclaimed_from_images_before_pods_go() {
    let mut node = Node::with(vec![threshold(Signal::NodeFsAvailable, "10%", 0)]);
    let pods = [load("greedy", 0, 300, 100)];
    node.reclaimable = 60;
    let decision = node.round(0, Signal::NodeFsAvailable, 50, &pods);
    assert_eq!((decision.reclaims, decision.evictions.len()), (Some(Resource::Disk), 0));
    assert_eq!(node.pressures(), ["DiskPressure"]);
    node.reclaimable = 40;
    let decision = node.round(10, Signal::NodeFsAvailable, 50, &pods);
    assert_eq!(
        decision.evictions[0].message,
        "The node was low on resource: ephemeral-storage. Threshold quantity: 100Mi, available: 50Mi. Container c was \
         using 300Mi, request is 100Mi, has larger consumption of ephemeral-storage. "
    );
}

#[tokio::test(start_paused = true)]
async fn critical_pods_stay() {
    let mut node = Node::with(vec![threshold(Signal::PidAvailable, "100Mi", 0)]);
    let pods = [load("node-critical", 2_000_001_000, 300, 0), load("web", 0, 5, 0)];
    let decision = node.round(0, Signal::PidAvailable, 50, &pods);
    assert_eq!(decision.evictions[0].pod.name(), "web");
    assert_eq!(
        decision.evictions[0].message,
        "The node was low on resource: pids. Threshold quantity: 100Mi, available: 50Mi. "
    );
    let decision = node.round(10, Signal::PidAvailable, 50, &pods[..1]);
    assert!(decision.evictions.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_pod_beyond_its_own_limit_goes_although_the_node_has_room() {
    let limited = |limit: &str| custom("writer", 0, 300, json!({"limits": {"ephemeral-storage": limit}}));
    let mut node = Node::with(Vec::new());
    let mut message = |load: PodLoad| {
        let decision = node.round(0, Signal::NodeFsAvailable, 900, &[load]);
        decision.evictions.first().map(|eviction| (eviction.message.clone(), eviction.is_disruption))
    };
    assert_eq!(message(limited("300Mi")), None);
    let exceeded = "Pod ephemeral local storage usage exceeds the total limit of containers 200Mi. ".to_owned();
    assert_eq!(message(limited("200Mi")), Some((exceeded, false)));
    let mut one_of_two = limited("200Mi");
    let pod = Arc::make_mut(&mut one_of_two.pod);
    pod.spec.as_mut().unwrap().containers.push(Default::default());
    let exceeded = "Container c exceeded its local ephemeral storage limit \"200Mi\". ".to_owned();
    assert_eq!(message(one_of_two), Some((exceeded, false)));
}

#[tokio::test(start_paused = true)]
async fn a_node_under_pressure_takes_no_pod_that_makes_it_worse() {
    let pod = |class: &str, priority: i32, spec: Value| {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {"priority": priority, "containers": []},
            "status": {"qosClass": class}});
        pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        Pod::decode_value(pod).unwrap()
    };
    let tolerant = json!({"tolerations": [{"key": "node.kubernetes.io/memory-pressure", "operator": "Exists"}]});
    let pods = [
        pod("BestEffort", 0, json!({})),
        pod("Burstable", 0, json!({})),
        pod("BestEffort", 0, tolerant),
        pod("BestEffort", 2_000_000_000, json!({})),
    ];
    let refused = |signals: &[Signal]| {
        let mut node = Node::with(signals.iter().map(|&signal| threshold(signal, "100Mi", 0)).collect());
        signals.iter().for_each(|&signal| drop(node.round(0, signal, 50, &[])));
        let messages = pods.iter().map(|pod| node.manager.admit(pod).err().map(|refusal| refusal.message));
        messages.map(|message| message.unwrap_or_default()).collect::<Vec<_>>()
    };
    let memory = "The node had condition: [MemoryPressure]. ";
    assert_eq!(refused(&[Signal::MemoryAvailable]), [memory, "", "", ""]);
    let disk = "The node had condition: [DiskPressure]. ";
    assert_eq!(refused(&[Signal::NodeFsAvailable]), [disk, disk, disk, ""]);
    let both = "The node had condition: [MemoryPressure DiskPressure]. ";
    assert_eq!(refused(&[Signal::MemoryAvailable, Signal::NodeFsAvailable]), [both, both, both, ""]);
}
