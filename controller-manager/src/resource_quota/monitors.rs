//! Follows the resources that quotas limit, from when the first quota limits them, and keeps the ledger.
//!
//! Corresponds to QuotaMonitor in pkg/controller/resourcequota/resource_quota_monitor.go.

use super::count::{id, is_looked_into, taken};
use super::ledger::{Id, Ledger, Taken};
use crate::discovery::{ApiResource, discover};
use client::{Cached, Client, Error, Event, Informer, Informers, WorkQueue};
use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use proto::quota::{IGNORED, concerns};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What changes together is counted together.
const SETTLE: Duration = Duration::from_millis(200);

pub struct Monitors {
    informers: Informers,
    queue: WorkQueue<String>,
    pub ledger: Arc<Mutex<Ledger>>,
    sources: Mutex<BTreeMap<(String, String), Arc<Source>>>,
}

/// One resource that is followed.
struct Source {
    resource: ApiResource,
    in_namespace: Box<dyn Fn(&str) -> Vec<(Id, Taken)> + Send + Sync>,
    synced: Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>,
}

impl Monitors {
    pub fn new(informers: Informers, queue: WorkQueue<String>) -> Arc<Self> {
        Arc::new(Self { informers, queue, ledger: Arc::default(), sources: Mutex::default() })
    }

    /// A quota was seen.
    pub fn note_quota(&self, namespace: &str, name: &str, used: &Value, now: Timestamp) {
        // In this order, as for a source: whichever comes second tells the ledger.
        if !self.ledger.lock().note_quota(namespace, name, used, now) {
            return;
        }
        let sources: Vec<Arc<Source>> = self.sources.lock().values().cloned().collect();
        for source in sources {
            let mut ledger = self.ledger.lock();
            for (id, taken) in (source.in_namespace)(namespace) {
                ledger.set(namespace, id, taken);
            }
        }
    }

    /// The resources that these limits are about, followed and seen once. False on shutdown.
    pub async fn follow(&self, client: &Client, limits: &BTreeSet<String>) -> Result<bool, Error> {
        let is_known =
            |limit: &String| self.sources.lock().keys().any(|(group, resource)| concerns(group, resource, limit));
        if !limits.iter().all(is_known) {
            let discovered = discover(client).await?;
            for resource in discovered.preferred().filter(|resource| can_be_counted(resource)) {
                let is_limited = |limit: &String| concerns(&resource.gvr.group, &resource.gvr.resource, limit);
                if limits.iter().any(is_limited) {
                    self.add(resource);
                }
            }
            self.informers.start();
        }
        for source in self.concerned(limits) {
            if !(source.synced)().await {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn concerned(&self, limits: &BTreeSet<String>) -> Vec<Arc<Source>> {
        let sources = self.sources.lock();
        let is_limited = |group: &str, resource: &str| limits.iter().any(|limit| concerns(group, resource, limit));
        sources
            .iter()
            .filter(|((group, resource), _)| is_limited(group, resource))
            .map(|(_, source)| source.clone())
            .collect()
    }

    /// The resources that are followed and that these limits are about.
    pub fn resources(&self, limits: &BTreeSet<String>) -> Vec<ApiResource> {
        self.concerned(limits).iter().map(|source| source.resource.clone()).collect()
    }

    fn add(&self, resource: &ApiResource) {
        let key = (resource.gvr.group.clone(), resource.gvr.resource.clone());
        if self.sources.lock().contains_key(&key) {
            return;
        }
        if !is_looked_into(&key.0, &key.1) {
            return self.add_informer(resource, self.informers.metadata(&resource.gvr), |_| Value::Null);
        }
        match key.1.as_str() {
            "pods" => self.add_informer(resource, self.informers.of::<Pod>(), Kind::encode),
            "services" => self.add_informer(resource, self.informers.of::<Service>(), Kind::encode),
            _ => self.add_informer(resource, self.informers.of::<PersistentVolumeClaim>(), Kind::encode),
        }
    }

    fn add_informer<T: Cached>(&self, resource: &ApiResource, informer: Informer<T>, tree: fn(&T) -> Value) {
        let uid = |object: &T| object.metadata().uid.clone().unwrap_or_default();
        let (lister, kind) = (informer.lister(), resource.clone());
        let in_namespace = move |namespace: &str| -> Vec<(Id, Taken)> {
            let objects = lister.in_namespace(namespace);
            objects.iter().map(|o| (id(&kind, o.metadata()), taken(&kind, &uid(o), tree(o)))).collect()
        };
        let synced = {
            let informer = informer.clone();
            move || -> BoxFuture<'static, bool> {
                let informer = informer.clone();
                Box::pin(async move { informer.synced().await })
            }
        };
        let source =
            Source { resource: resource.clone(), in_namespace: Box::new(in_namespace), synced: Box::new(synced) };
        let key = (resource.gvr.group.clone(), resource.gvr.resource.clone());
        self.sources.lock().insert(key, Arc::new(source));
        let (ledger, queue, kind) = (self.ledger.clone(), self.queue.clone(), resource.clone());
        informer.on_event(move |event| {
            let metadata = event.object().metadata();
            let namespace = metadata.namespace.as_deref().unwrap_or_default();
            let mut ledger = ledger.lock();
            if !ledger.counts(namespace) {
                return;
            }
            match event {
                Event::Deleted(_) => ledger.remove(namespace, &id(&kind, metadata)),
                Event::Added(object) | Event::Updated { new: object, .. } => {
                    ledger.set(namespace, id(&kind, metadata), taken(&kind, &uid(object), tree(object)));
                }
            }
            for quota in ledger.quotas(namespace) {
                queue.add_after(format!("{namespace}/{quota}"), SETTLE);
            }
        });
    }
}

fn can_be_counted(resource: &ApiResource) -> bool {
    let name = (resource.gvr.group.as_str(), resource.gvr.resource.as_str());
    resource.is_namespaced && resource.has_verbs(&["create", "list", "watch", "delete"]) && !IGNORED.contains(&name)
}
