//! The proxies of all nodes: informers keep one model current, and the rules of a node are made from it on demand.
//!
//! Corresponds to pkg/proxy/iptables.Proxier, which runs on every node. Here one process serves all nodes.

use crate::Settings;
use crate::iptables::{self, NodeSettings};
use crate::metrics::Metrics;
use crate::model::{Model, service_of};
use crate::rules::RuleSet;
use client::controller::{ReconcileError, run_workers};
use client::{Client, Event, Informer, Informers, WorkQueue};
use component_base::env::Env;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Service};
use proto::kinds::api::discovery::v1::EndpointSlice;
use proto::meta::node_labels::ZONE;
use std::sync::Arc;

/// Name of the index of slices by their Service.
const BY_SERVICE: &str = "service";
/// One worker: changes are cheap and must not overtake each other.
const WORKERS: usize = 1;

/// The proxies of all nodes. Clones share their state.
#[derive(Clone)]
pub struct Proxies {
    env: Env,
    informers: Informers,
    model: Arc<Mutex<Model>>,
    cluster_cidr: String,
    services: Informer<Service>,
    slices: Informer<EndpointSlice>,
    nodes: Informer<Node>,
    /// Keys of Services: `namespace/name`.
    queue: WorkQueue<String>,
    metrics: Metrics,
}

impl Proxies {
    /// Prepares informers of `client`, which run as long as its environment. The model is empty before `run`.
    pub fn new(client: &Client, settings: &Settings) -> Self {
        let (env, informers) = (client.env().clone(), Informers::new(client));
        let proxies = Self {
            model: Arc::default(),
            cluster_cidr: settings.cluster_cidr.to_string(),
            services: informers.of::<Service>(),
            slices: informers.of::<EndpointSlice>(),
            nodes: informers.of::<Node>(),
            queue: WorkQueue::new(&env, "proxy"),
            metrics: Metrics::register(&env),
            informers,
            env,
        };
        proxies.slices.index(BY_SERVICE, |slice| {
            service_of(slice).map(|(namespace, name)| format!("{namespace}/{name}")).into_iter().collect()
        });
        let (queue, metrics) = (proxies.queue.clone(), proxies.metrics.clone());
        proxies.services.on_event(move |event: &Event<Service>| {
            metrics.service_changed();
            queue.add(event.object().key());
        });
        let (queue, metrics) = (proxies.queue.clone(), proxies.metrics.clone());
        proxies.slices.on_event(move |event: &Event<EndpointSlice>| {
            metrics.endpoints_changed();
            // A slice whose label changed also affects the Service that it left.
            let before = match event {
                Event::Updated { old, .. } => service_of(old),
                _ => None,
            };
            for (namespace, name) in before.into_iter().chain(service_of(event.object())) {
                queue.add(format!("{namespace}/{name}"));
            }
        });
        proxies
    }

    /// Keeps the model current until shutdown.
    pub async fn run(&self) {
        self.informers.start();
        if !self.informers.synced().await {
            return;
        }
        let proxies = self.clone();
        run_workers(&self.env, "proxy", self.queue.clone(), WORKERS, move |key| {
            proxies.sync(&key);
            async { Ok::<(), ReconcileError>(()) }
        })
        .await;
    }

    /// Updates one Service in the model. Level-triggered: it reads only the caches.
    fn sync(&self, key: &str) {
        let Some((namespace, name)) = key.split_once('/') else { return };
        let service = self.services.lister().get(namespace, name);
        let slices = self.slices.lister().by_index(BY_SERVICE, key);
        let mut model = self.model.lock();
        match service {
            Some(service) => model.set_service(&service, &slices),
            None => model.remove_service(namespace, name),
        }
        self.metrics.synced(&self.env);
    }

    pub fn has_synced(&self) -> bool {
        self.services.has_synced() && self.slices.has_synced() && self.nodes.has_synced()
    }

    /// Returns the rules of one node; `None` when there is no such node.
    pub fn rules(&self, node: &str) -> Option<RuleSet> {
        let node = self.nodes.lister().get("", node)?;
        let settings = node_settings(&node, &self.cluster_cidr);
        Some(iptables::rules(&self.model.lock(), &settings))
    }

    /// Returns the names of all nodes, sorted.
    pub fn nodes(&self) -> Vec<String> {
        self.nodes.lister().list().iter().map(|node| node.name().to_owned()).collect()
    }
}

fn node_settings(node: &Node, cluster_cidr: &str) -> NodeSettings {
    let zone = node.metadata.labels.as_ref().and_then(|labels| labels.get(ZONE));
    let mut addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let ip = addresses.find_map(|a| a.address.parse().ok().filter(|_| a.type_ == "InternalIP"));
    NodeSettings {
        name: node.name().to_owned(),
        zone: zone.cloned().unwrap_or_default(),
        ip,
        cluster_cidr: cluster_cidr.to_owned(),
    }
}
