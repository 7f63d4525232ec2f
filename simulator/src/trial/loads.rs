//! `Loads`: the loads of a trial's Deployments, and the metrics server that shows what each pod uses of its CPU.
//!
//! The users of a Deployment ask for an amount of CPU that changes with time. They reach the pods that are ready, and each gets the
//! same part. An autoscaler learns of it as in a cluster: from `metrics.k8s.io`, which the API server forwards to this server.
//!
//! Deviation: the metrics server of a study knows the pods of its Deployments alone; in a replay it knows every pod that the study has created, and
//! every node, without its labels. It shows what they use at the time of the question, while metrics-server shows what it measured last, up
//! to 15 s before.

use super::pod_state::PodState;
use super::usage::{Everything, PodUsage, node_of};
use component_base::env::Env;
use component_base::network::{HttpService, Network};
use experiments::amounts::MEMORY;
use experiments::load::share;
use experiments::record::Event;
use experiments::workload::Deployment;
use metrics_server::answers::{Item, Scope, Selection, Usage};
use metrics_server::routes::{self, Source};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Name of the metrics server in the in-process network.
pub const AUTHORITY: &str = "metrics-server:443";

pub struct Loads {
    env: Env,
    services: Mutex<Vec<Service>>,
    /// All nodes and pods, if somebody looks at the cluster.
    everything: Option<Mutex<Everything>>,
}

/// A Deployment with its load and its pods.
struct Service {
    deployment: Deployment,
    /// Number of the changes of its load so far.
    passed: usize,
    load_milli: i64,
    /// Its pods that are ready, as `namespace/name`, and their nodes.
    ready: BTreeMap<String, String>,
}

impl Loads {
    /// With the names of `nodes`, it knows what everything uses, and not the pods of the Deployments alone.
    pub fn new(env: &Env, deployments: &[Deployment], nodes: Option<BTreeSet<String>>) -> Arc<Self> {
        let service = |deployment: &Deployment| Service {
            deployment: deployment.clone(),
            passed: 0,
            load_milli: 0,
            ready: BTreeMap::new(),
        };
        Arc::new(Self {
            env: env.clone(),
            services: Mutex::new(deployments.iter().map(service).collect()),
            everything: nodes.map(|nodes| Mutex::new(Everything { nodes, ..Everything::default() })),
        })
    }

    /// Serves the group `metrics.k8s.io` in the network of the trial.
    pub fn serve(self: &Arc<Self>) {
        let Network::InProcess(network) = self.env.network() else { unreachable!("a simulated Env has no sockets") };
        network.register(AUTHORITY, HttpService::new(routes::routes(self.clone())));
    }

    /// True if nobody would ask.
    pub fn is_empty(&self) -> bool {
        self.services.lock().is_empty() && self.everything.is_none()
    }

    /// Notes a pod as its user creates it.
    pub fn remember(&self, pod: &Value) {
        self.everything.iter().for_each(|all| all.lock().remember(pod));
    }

    /// Takes a write to a node.
    pub fn see_node(&self, name: &str, is_ready: bool) {
        self.everything.iter().for_each(|all| all.lock().see_node(name, is_ready));
    }

    /// Returns when the next load changes.
    pub fn next_at(&self) -> Option<Duration> {
        self.services.lock().iter().filter_map(|service| service.next_change().map(|(at, _)| at)).min()
    }

    /// Lets the loads change until now, and returns what has changed.
    pub fn advance(&self, now: Duration) -> Vec<Event> {
        let mut changed = Vec::new();
        for service in self.services.lock().iter_mut() {
            let before = service.passed;
            while let Some((_, cpu_milli)) = service.next_change().filter(|(at, _)| *at <= now) {
                service.load_milli = cpu_milli;
                service.passed += 1;
            }
            if service.passed > before {
                let deployment = service.deployment.name.clone();
                changed.push(Event::LoadChanged { deployment, cpu_milli: service.load_milli });
            }
        }
        changed
    }

    /// Takes a write to a pod; `None` deletes it.
    pub fn see_pod(&self, name: &str, state: Option<&PodState>) {
        self.everything.iter().for_each(|all| all.lock().see_pod(name, state));
        for service in self.services.lock().iter_mut() {
            let takes_load = |state: &&PodState| {
                state.is_ready && !state.is_leaving && state.deployment.as_ref() == Some(&service.deployment.name)
            };
            match state.filter(takes_load).and_then(node_of) {
                None => drop(service.ready.remove(name)),
                Some(_) if service.ready.contains_key(name) => {}
                Some(node) => drop(service.ready.insert(name.to_owned(), node.clone())),
            }
        }
    }
}

impl Service {
    fn next_change(&self) -> Option<(Duration, i64)> {
        self.deployment.load.get(self.passed).copied()
    }

    /// Returns the usage of each of its containers. The first one does the work.
    fn usages(&self) -> Vec<Usage> {
        let milli = share(self.load_milli, self.ready.len(), self.deployment.cpu_limit_milli);
        let memory = self.deployment.facts.requests.get(MEMORY).copied().unwrap_or_default();
        let containers = self.deployment.pod.spec.iter().flat_map(|spec| &spec.containers).enumerate();
        let usage = |(place, container): (usize, &proto::kinds::api::core::v1::Container)| match place {
            0 => Usage { name: container.name.clone(), cpu_cores: milli as f64 / 1000.0, memory_bytes: memory as f64 },
            _ => Usage { name: container.name.clone(), ..Usage::default() },
        };
        containers.map(usage).collect()
    }
}

impl Loads {
    /// Returns every pod with its labels, its node and what its containers use.
    fn pods(&self) -> Vec<(String, PodUsage)> {
        let mut all = Vec::new();
        for service in self.services.lock().iter() {
            let (labels, usages) = (&service.deployment.pod.metadata.labels, service.usages());
            let usage =
                |node: &String| PodUsage { labels: labels.clone(), usages: usages.clone(), node: Some(node.clone()) };
            all.extend(service.ready.iter().map(|(pod, node)| (pod.clone(), usage(node))));
        }
        if let Some(everything) = &self.everything {
            let everything = everything.lock();
            let running = everything.pods.iter().filter(|(_, pod)| pod.node.is_some());
            all.extend(running.map(|(name, pod)| (name.clone(), pod.clone())));
        }
        all
    }

    /// Returns every node with the sum of what its pods use.
    fn nodes(&self) -> BTreeMap<String, Usage> {
        let Some(everything) = &self.everything else { return BTreeMap::new() };
        let mut nodes: BTreeMap<String, Usage> =
            everything.lock().nodes.iter().map(|node| (node.clone(), Usage::default())).collect();
        for (_, pod) in self.pods() {
            let Some(node) = pod.node.and_then(|node| nodes.get_mut(&node)) else { continue };
            for usage in &pod.usages {
                node.cpu_cores += usage.cpu_cores;
                node.memory_bytes += usage.memory_bytes;
            }
        }
        nodes
    }
}

impl Source for Loads {
    fn items(&self, scope: &Scope, selection: &Selection) -> Vec<Item> {
        let now = self.env.wall();
        let item = |namespace: &str, name: &str, labels, usages| Item {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            labels,
            now,
            usages,
        };
        let mut items = Vec::new();
        match scope {
            Scope::Nodes => {
                let selected = self.nodes().into_iter().filter(|(name, _)| selection.selects("", name, None));
                items.extend(selected.map(|(name, usage)| item("", &name, None, vec![usage])));
            }
            Scope::Pods { namespace: wanted } => {
                for (pod, usage) in self.pods() {
                    let (namespace, name) = pod.split_once('/').unwrap_or_default();
                    let is_there = wanted.as_deref().is_none_or(|wanted| wanted == namespace);
                    if is_there && selection.selects(namespace, name, usage.labels.as_ref()) {
                        items.push(item(namespace, name, usage.labels.clone(), usage.usages));
                    }
                }
            }
        }
        items
    }
}

/// The Deployments of a trial by their names.
pub fn by_name(deployments: &[Deployment]) -> BTreeMap<String, Deployment> {
    deployments.iter().map(|deployment| (deployment.name.clone(), deployment.clone())).collect()
}

#[cfg(test)]
mod tests;
