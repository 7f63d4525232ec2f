//! A cluster whose profile has one policy, for tests. Pods are assumed as the scheduler does, and not bound.

use crate::register;
use component_base::rng::Random;
use component_helpers::gpu_sharing::{GPU_COUNT, GPU_INDEX, GPU_MILLI, GPU_MODEL};
use proto::kinds::api::core::v1::Node;
use scheduler_plugins::fixture::{Objects, TestCluster, registry};
use scheduling_framework::assembly::assemble;
use scheduling_framework::configuration::profile::ProfileConfiguration;
use scheduling_framework::fixture::{info, merge, node, pod};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{CycleState, WaitingPods};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns what makes a node one with GPUs.
pub fn gpus(count: u32, model: &str) -> Value {
    json!({
        "metadata": {"labels": {GPU_MODEL: model}},
        "status": {"allocatable": {GPU_COUNT: count.to_string(), GPU_MILLI: (count * 1000).to_string()}},
    })
}

pub fn gpu_node(name: &str, count: u32, model: &str) -> Arc<Node> {
    node(name, "", gpus(count, model))
}

/// Returns a pod with GPUs, as a study makes it.
pub fn gpu_pod(name: &str, cpu: &str, count: u32, milli: u32) -> Value {
    let mut pod = pod(name, cpu, json!({}));
    pod["metadata"]["annotations"] = json!({GPU_COUNT: count.to_string(), GPU_MILLI: milli.to_string()});
    pod["spec"]["containers"][0]["resources"]["requests"][GPU_MILLI] = json!((count * milli).to_string());
    pod
}

/// Nodes of a cluster, each with what is merged over 4 CPUs and 8 GiB.
pub struct Nodes(Vec<Arc<Node>>);

impl Nodes {
    pub fn of(nodes: &[(&str, Value)]) -> Self {
        Self(nodes.iter().map(|(name, extra)| node(name, "", extra.clone())).collect())
    }

    /// Returns a cluster that scores by this plugin alone. GPUs are shared.
    pub fn cluster(&self, plugin: &str, args: &Value) -> Cluster {
        match plugin {
            "GpuShare" => self.cluster_of(&[(plugin, args.clone())]),
            _ => self.cluster_of(&[("GpuShare", json!({})), (plugin, args.clone())]),
        }
    }

    /// Returns a cluster with these plugins. Kubernetes' own do not score.
    pub fn cluster_of(&self, plugins: &[(&str, Value)]) -> Cluster {
        self.cluster_with(plugins, plugins)
    }

    /// Returns a cluster that names the plugin at Score alone.
    pub fn cluster_at_score(&self, plugin: &str, args: &Value) -> Cluster {
        self.cluster_with(&[], &[(plugin, args.clone())])
    }

    fn cluster_with(&self, multi_point: &[(&str, Value)], plugins: &[(&str, Value)]) -> Cluster {
        let enabled = |names: Vec<&str>| names.iter().map(|name| json!({"name": name})).collect::<Value>();
        let names: Vec<&str> = plugins.iter().map(|(name, _)| *name).collect();
        let scoring = names.iter().copied().filter(|name| *name != "GpuShare").collect();
        let config = plugins.iter().map(|(name, args)| json!({"name": name, "args": args})).collect::<Value>();
        let profile = json!({
            "schedulerName": "default-scheduler",
            "plugins": {
                "multiPoint": {"enabled": enabled(multi_point.iter().map(|(name, _)| *name).collect())},
                "score": {"disabled": [{"name": "*"}], "enabled": enabled(scoring)},
            },
            "pluginConfig": config,
        });
        let mut errors = Vec::new();
        let configuration = ProfileConfiguration::read("profiles[0]", &profile, &mut errors);
        assert_eq!(errors, [""; 0]);
        let mut registry = registry(Objects::default());
        register(&mut registry, &WaitingPods::default(), &Random::from_seed(1, "policies"));
        let profile = assemble(&configuration, &registry).unwrap();
        Cluster { inner: TestCluster::with(profile, self.0.iter().cloned()), placed: BTreeMap::new() }
    }
}

pub struct Cluster {
    inner: TestCluster,
    /// Pods with their nodes and states.
    placed: BTreeMap<String, (Arc<PodInfo>, String, CycleState)>,
}

impl Cluster {
    /// Schedules, assumes and reserves a pod. Returns the places of its GPUs, or why it fits nowhere.
    pub fn places(&mut self, pod: Value) -> Result<String, String> {
        let (info, mut state) = (info(pod), CycleState::default());
        let decision = self.inner.decide(&info, &mut state).map_err(|error| error.to_string())?;
        self.inner.cache.assume(info.clone(), &decision.node);
        let reserved = self.inner.profile.run_reserve(&mut state, &info, &decision.node);
        reserved.map_err(|rejection| rejection.reasons.join(", "))?;
        let places = state.binding_annotations.get(GPU_INDEX).cloned().unwrap_or_default();
        self.placed.insert(info.pod.metadata.name.clone().unwrap(), (info, decision.node, state));
        Ok(places)
    }

    /// Schedules a pod, and returns its node.
    pub fn node_of(&mut self, pod: Value) -> String {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        self.places(pod).unwrap();
        self.node(&name)
    }

    /// Returns the node of a pod that was scheduled.
    pub fn node(&self, pod: &str) -> String {
        self.placed[pod].1.clone()
    }

    /// Schedules a pod that requests so much CPU. Returns its node.
    pub fn choose(&mut self, name: &str, cpu: &str) -> String {
        self.node_of(pod(name, cpu, json!({})))
    }

    /// Returns the score of each node for a pod.
    pub fn scores_of(&mut self, pod: Value) -> Vec<(&'static str, i64)> {
        let decision = self.inner.decide(&info(pod), &mut CycleState::default()).unwrap();
        let names = self.inner.names(&decision);
        // Tests compare with literals; there are few of them.
        let names = names.into_iter().map(|name| &*name.leak());
        let scores = decision.scores.first().map(|plugin| plugin.scores.clone()).unwrap();
        let mut found: Vec<(&'static str, i64)> = names.zip(scores).collect();
        found.sort_unstable();
        found
    }

    /// Returns the score of each node for a pod with these requests.
    pub fn scores(&mut self, cpu: &str, memory: &str) -> Vec<(&'static str, i64)> {
        let mut pod = pod("pod", cpu, json!({}));
        merge(&mut pod["spec"]["containers"][0]["resources"]["requests"], json!({"memory": memory}));
        self.scores_of(pod)
    }

    /// Adds a bound pod that requests so much.
    pub fn use_up(&mut self, node: &str, cpu: &str, memory: &str) {
        let mut pod = pod(&format!("on-{node}"), cpu, json!({}));
        merge(&mut pod["spec"]["containers"][0]["resources"]["requests"], json!({"memory": memory}));
        self.inner.place(pod, node);
    }

    /// Adds a bound pod with these GPUs.
    pub fn place(&mut self, mut pod: Value, node: &str, places: &str) {
        pod["metadata"]["annotations"][GPU_INDEX] = json!(places);
        self.inner.place(pod, node);
    }

    pub fn remove(&mut self, name: &str) {
        self.inner.cache.remove_pod(name);
    }

    /// Lets the binding of a pod fail.
    pub fn unreserve(&mut self, name: &str) {
        let (info, node, state) = self.placed.remove(name).unwrap();
        self.inner.profile.run_unreserve(&state, &info, &node);
        self.inner.cache.forget(info.uid());
    }
}
