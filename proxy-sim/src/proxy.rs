//! The proxies of all nodes: one model kept current by informers, from which each node's rules are read.
//!
//! Corresponds to pkg/proxy/iptables.Proxier; that one runs per node, this one serves every node of the cluster.

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
use std::sync::Arc;

/// Slices by the Service they belong to.
const BY_SERVICE: &str = "service";
/// Changes are cheap and must not overtake each other.
const WORKERS: usize = 1;

/// What every node's proxy has programmed. Clones share it.
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
    /// Watches through `client`, as long as its environment lasts; nothing is known before `run`.
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
            // A slice whose label changed concerns the Service it left, too.
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

    /// Brings one Service's part of the model up to date. Level-triggered: it looks at the caches alone.
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

    /// The rules of one node; `None` where there is no such node.
    pub fn rules(&self, node: &str) -> Option<RuleSet> {
        let node = self.nodes.lister().get("", node)?;
        let settings = node_settings(&node, &self.cluster_cidr);
        Some(iptables::rules(&self.model.lock(), &settings))
    }

    /// The names of all nodes, sorted.
    pub fn nodes(&self) -> Vec<String> {
        self.nodes.lister().list().iter().map(|node| node.name().to_owned()).collect()
    }
}

fn node_settings(node: &Node, cluster_cidr: &str) -> NodeSettings {
    let zone = node.metadata.labels.as_ref().and_then(|labels| labels.get("topology.kubernetes.io/zone"));
    let mut addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let ip = addresses.find_map(|a| a.address.parse().ok().filter(|_| a.type_ == "InternalIP"));
    NodeSettings {
        name: node.name().to_owned(),
        zone: zone.cloned().unwrap_or_default(),
        ip,
        cluster_cidr: cluster_cidr.to_owned(),
    }
}
