//! `Loads`: the loads of a trial's Deployments, and the metrics server that shows what each pod uses of its CPU.
//!
//! The users of a Deployment ask for an amount of CPU that changes with time. They reach the pods that are ready, and each gets the
//! same part. An autoscaler learns of it as in a cluster: from `metrics.k8s.io`, which the API server forwards to this server.
//!
//! Deviation: the metrics server knows the pods of the trial's Deployments alone. It shows what they use at the time of the question,
//! while metrics-server shows what it measured last, up to 15 s before.

use super::pod_state::PodState;
use component_base::env::Env;
use component_base::network::{HttpService, Network};
use experiments::amounts::MEMORY;
use experiments::load::share;
use experiments::record::Event;
use experiments::workload::Deployment;
use metrics_server::answers::{Item, Scope, Selection, Usage};
use metrics_server::routes::{self, Source};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Name of the metrics server in the in-process network.
pub const AUTHORITY: &str = "metrics-server:443";

pub struct Loads {
    env: Env,
    services: Mutex<Vec<Service>>,
}

/// A Deployment with its load and its pods.
struct Service {
    deployment: Deployment,
    /// Number of the changes of its load so far.
    passed: usize,
    load_milli: i64,
    /// Names of its pods that are ready, as `namespace/name`.
    ready: BTreeSet<String>,
}

impl Loads {
    pub fn new(env: &Env, deployments: &[Deployment]) -> Arc<Self> {
        let service = |deployment: &Deployment| Service {
            deployment: deployment.clone(),
            passed: 0,
            load_milli: 0,
            ready: BTreeSet::new(),
        };
        Arc::new(Self { env: env.clone(), services: Mutex::new(deployments.iter().map(service).collect()) })
    }

    /// Serves the group `metrics.k8s.io` in the network of the trial.
    pub fn serve(self: &Arc<Self>) {
        let Network::InProcess(network) = self.env.network() else { unreachable!("a simulated Env has no sockets") };
        network.register(AUTHORITY, HttpService::new(routes::routes(self.clone())));
    }

    pub fn is_empty(&self) -> bool {
        self.services.lock().is_empty()
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
        for service in self.services.lock().iter_mut() {
            let takes_load = state.is_some_and(|state| {
                state.is_ready && !state.is_leaving && state.deployment.as_ref() == Some(&service.deployment.name)
            });
            if !takes_load {
                service.ready.remove(name);
            } else if !service.ready.contains(name) {
                service.ready.insert(name.to_owned());
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

impl Source for Loads {
    fn items(&self, scope: &Scope, selection: &Selection) -> Vec<Item> {
        let Scope::Pods { namespace: wanted } = scope else { return Vec::new() };
        let now = self.env.wall();
        let mut items = Vec::new();
        for service in self.services.lock().iter() {
            let (labels, usages) = (&service.deployment.pod.metadata.labels, service.usages());
            for pod in &service.ready {
                let (namespace, name) = pod.split_once('/').unwrap_or_default();
                let is_there = wanted.as_deref().is_none_or(|wanted| wanted == namespace);
                if is_there && selection.selects(namespace, name, labels.as_ref()) {
                    let (namespace, name) = (namespace.to_owned(), name.to_owned());
                    items.push(Item { namespace, name, labels: labels.clone(), now, usages: usages.clone() });
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
