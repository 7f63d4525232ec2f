//! Compares cycles that use what earlier ones have left with cycles that ask every plugin about every node, after random
//! histories of clusters with several words of nodes.

use crate::fixture::{TestCluster, info, node, pod};
use component_base::env::Env;
use component_base::rng::Random;
use proto::kinds::apimachinery::api::resource::Quantity;
use scheduling_framework::cycle::{self, Decision, Rotation};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::timings::Timings;
use scheduling_framework::{CycleState, FitError, Nominated, Profile};
use serde_json::{Value, json};
use std::sync::Arc;

/// More nodes than are feasible enough, and than domains whose nodes are kept as a set.
const NODES: usize = 190;
const SHAPES: usize = 9;
const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";

struct World {
    random: Random,
    cluster: TestCluster,
    asking: Env,
    pods: usize,
    /// Uids of the pods that have a node.
    placed: Vec<String>,
}

/// What one cycle has decided, without durations.
type Decided = Result<Decision, FitError>;

impl World {
    fn new(seed: u64) -> Self {
        let random = Random::from_seed(seed, "history");
        let cluster = TestCluster::new([]);
        let mut world = Self { random, cluster, asking: Env::system(), pods: 0, placed: Vec::new() };
        (0..NODES).for_each(|number| world.set_node(number));
        world
    }

    fn set_node(&mut self, number: usize) {
        let draw = |of: usize| self.random.below(of);
        let effect = ["NoSchedule", "PreferNoSchedule"][draw(2)];
        let taints = if draw(6) == 0 { json!([{"key": "gpu", "effect": effect}]) } else { json!(null) };
        let images =
            if draw(9) == 0 { json!([{"names": ["nginx:latest"], "sizeBytes": 700_000_000}]) } else { json!([]) };
        let hostname = if draw(20) == 0 { json!(null) } else { json!(format!("n{number}")) };
        let (cpu, pods) = (["1", "4", "4"][draw(3)], ["3", "110"][draw(2)]);
        let is_cordoned = draw(15) == 0;
        let changed = json!({
            "metadata": {"labels": {HOSTNAME: hostname}},
            "spec": {"unschedulable": is_cordoned, "taints": taints},
            "status": {"images": images, "allocatable": {"cpu": cpu, "pods": pods}},
        });
        self.cluster.cache.set_node(node(&format!("n{number}"), ["a", "b", "c"][number % 3], changed));
    }

    /// Lets the kubelet of a node report, with nothing new or with less room.
    fn heartbeat(&mut self, number: usize) {
        let Some(info) = self.cluster.cache.node(&format!("n{number}")) else { return };
        let Some(mut node) = info.node.as_deref().cloned() else { return };
        node.metadata.resource_version = Some(self.pods.to_string());
        if let Some(room) = node.status.as_mut().and_then(|status| status.allocatable.as_mut())
            && self.random.below(4) == 0
        {
            room.insert("pods".to_owned(), Quantity("1".to_owned()));
        }
        self.cluster.cache.set_node(Arc::new(node));
    }

    /// Returns a pod of one of a few shapes.
    fn pod(&mut self) -> Value {
        let shape = self.random.below(SHAPES);
        self.pods += 1;
        let name = format!("s{shape}-{}", self.pods);
        let selector = json!({"matchLabels": {"app": format!("s{shape}")}});
        let term = |key: &str| json!([{"labelSelector": selector, "topologyKey": key}]);
        let required = |key: &str| json!({"requiredDuringSchedulingIgnoredDuringExecution": term(key)});
        let preferred = json!({"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 7, "podAffinityTerm": {"labelSelector": selector, "topologyKey": ZONE}}]});
        let spread = |when: &str, key: &str| {
            json!({"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": selector}]})
        };
        let spec = match shape {
            0 => json!({}),
            1 => json!({"tolerations": [{"operator": "Exists"}]}),
            2 => json!({"nodeSelector": {ZONE: "b"}}),
            3 => json!({"affinity": {"podAntiAffinity": required(HOSTNAME)}}),
            4 => json!({"affinity": {"podAffinity": required(ZONE), "podAntiAffinity": required(HOSTNAME)}}),
            5 => json!({"affinity": {"podAffinity": preferred}}),
            6 => spread("DoNotSchedule", ZONE),
            7 => spread("ScheduleAnyway", HOSTNAME),
            _ => json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}),
        };
        pod(&name, ["0", "500m", "3"][self.random.below(3)], spec)
    }

    fn change(&mut self) {
        match self.random.below(12) {
            0 => self.cluster.cache.remove_node(&format!("n{}", self.random.below(NODES))),
            1..4 => self.set_node(self.random.below(NODES)),
            6..8 => self.heartbeat(self.random.below(NODES)),
            4..6 if !self.placed.is_empty() => {
                let uid = self.placed.swap_remove(self.random.below(self.placed.len()));
                self.cluster.cache.remove_pod(&uid);
            }
            _ => {}
        }
        let info = info(self.pod());
        if let Some(node) = self.decide_each_way(&info) {
            self.placed.push(info.uid().to_owned());
            self.cluster.cache.assume(info, &node);
        }
    }

    /// Returns the node of the pod.
    fn decide_each_way(&mut self, info: &PodInfo) -> Option<String> {
        self.cluster.cache.update(&mut self.cluster.snapshot);
        let start = self.cluster.rotation.next_start();
        let [mut asking, keeping, mut only_totals, mut asking_totals] = [(); 4].map(|()| CycleState::default());
        asking.timings = Timings::new(&self.asking, true);
        only_totals.only_totals = true;
        (asking_totals.only_totals, asking_totals.timings) = (true, Timings::new(&self.asking, true));
        let (asked, after_asked) = self.decide(&self.cluster.profile.clone(), asking, info, start);
        let (kept, after_kept) = self.decide(&self.cluster.profile, keeping, info, start);
        let (total, after_total) = self.decide(&self.cluster.profile, only_totals, info, start);
        let (asked_total, after_asked_total) = self.decide(&self.cluster.profile, asking_totals, info, start);
        assert_eq!([after_kept, after_total, after_asked_total], [after_asked; 3], "{}", info.key);
        self.cluster.rotation = Rotation::at(after_kept);
        let all = self.cluster.snapshot.nodes().len();
        for other in [&kept, &total, &asked_total] {
            match (&asked, other) {
                (Ok(asked), Ok(other)) => {
                    assert_eq!((&asked.feasible, asked.evaluated), (&other.feasible, other.evaluated), "{}", info.key);
                    assert_eq!(asked.rejections.by_number(all), other.rejections.by_number(all), "{}", info.key);
                    assert_eq!(asked.node, other.node, "{}", info.key);
                }
                (asked, other) => assert_eq!(text(asked), text(other)),
            }
        }
        if let (Ok(asked), Ok(kept)) = (&asked, &kept) {
            assert_eq!(asked.scores, kept.scores, "{}", info.key);
        }
        asked.ok().map(|decision| decision.node)
    }

    /// Returns the decision, and where the next search begins.
    fn decide(&self, profile: &Profile, mut state: CycleState, info: &PodInfo, start: usize) -> (Decided, usize) {
        let (mut rotation, random) = (Rotation::at(start), Random::from_seed(self.pods as u64, "ties"));
        let (snapshot, nominated) = (&self.cluster.snapshot, Nominated::default());
        let decided = cycle::schedule_one(profile, &mut state, info, snapshot, &nominated, &mut rotation, &random);
        (decided, rotation.next_start())
    }
}

fn text(decided: &Decided) -> String {
    match decided {
        Ok(decision) => decision.node.clone(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_is_kept_changes_no_decision() {
    for seed in 0..4 {
        let mut world = World::new(seed);
        for _ in 0..150 {
            world.change();
        }
        assert!(world.placed.len() > 50, "most pods have a node");
    }
}
