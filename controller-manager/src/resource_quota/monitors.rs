//! `Monitors` watches the resources that quotas limit, and updates the ledger.
//!
//! Corresponds to QuotaMonitor in pkg/controller/resourcequota/resource_quota_monitor.go.

use super::count::{depends_on_content, id, object_usage};
use super::ledger::{Id, Ledger, ObjectUsage};
use client::{Cached, Client, Error, Event, Informer, Informers, WorkQueue};
use controller_base::discovery::{ApiResource, discover};
use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolumeClaim, Pod, Service};
use proto::quota::{IGNORED, matches_resource};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Delay after a change, so that one round counts several changes.
const BATCH_DELAY: Duration = Duration::from_millis(200);

pub struct Monitors {
    informers: Informers,
    queue: WorkQueue<String>,
    pub ledger: Arc<Mutex<Ledger>>,
    monitors: Mutex<BTreeMap<(String, String), Arc<Monitor>>>,
}

/// The informer of one resource.
struct Monitor {
    resource: ApiResource,
    in_namespace: Box<dyn Fn(&str) -> Vec<(Id, ObjectUsage)> + Send + Sync>,
    synced: Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>,
}

impl Monitors {
    pub fn new(informers: Informers, queue: WorkQueue<String>) -> Arc<Self> {
        Arc::new(Self { informers, queue, ledger: Arc::default(), monitors: Mutex::default() })
    }

    /// Records a quota in the ledger, and with the first quota of a namespace its objects.
    pub fn observe_quota(&self, namespace: &str, name: &str, used: &Value, now: Timestamp) {
        // The quota comes before the monitors are read. A monitor is added before its events are handled. So of a new
        // quota and a new monitor, the later one adds the objects.
        if !self.ledger.lock().observe_quota(namespace, name, used, now) {
            return;
        }
        let monitors: Vec<Arc<Monitor>> = self.monitors.lock().values().cloned().collect();
        for monitor in monitors {
            let mut ledger = self.ledger.lock();
            for (id, usage) in (monitor.in_namespace)(namespace) {
                ledger.set(namespace, id, usage);
            }
        }
    }

    /// Monitors the resources that these limits concern, and waits for their first sync. Returns false on shutdown.
    pub async fn ensure_synced(&self, client: &Client, limits: &BTreeSet<String>) -> Result<bool, Error> {
        let is_known = |limit: &String| {
            self.monitors.lock().keys().any(|(group, resource)| matches_resource(group, resource, limit))
        };
        if !limits.iter().all(is_known) {
            let discovered = discover(client).await?;
            for resource in discovered.preferred().filter(|resource| can_be_counted(resource)) {
                let is_limited = |limit: &String| matches_resource(&resource.gvr.group, &resource.gvr.resource, limit);
                if limits.iter().any(is_limited) {
                    self.add(resource);
                }
            }
            self.informers.start();
        }
        for monitor in self.concerned(limits) {
            if !(monitor.synced)().await {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn concerned(&self, limits: &BTreeSet<String>) -> Vec<Arc<Monitor>> {
        let monitors = self.monitors.lock();
        let is_limited =
            |group: &str, resource: &str| limits.iter().any(|limit| matches_resource(group, resource, limit));
        monitors
            .iter()
            .filter(|((group, resource), _)| is_limited(group, resource))
            .map(|(_, monitor)| monitor.clone())
            .collect()
    }

    /// Returns the monitored resources that these limits concern.
    pub fn resources(&self, limits: &BTreeSet<String>) -> Vec<ApiResource> {
        self.concerned(limits).iter().map(|monitor| monitor.resource.clone()).collect()
    }

    fn add(&self, resource: &ApiResource) {
        let key = (resource.gvr.group.clone(), resource.gvr.resource.clone());
        if self.monitors.lock().contains_key(&key) {
            return;
        }
        if !depends_on_content(&key.0, &key.1) {
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
        let in_namespace = move |namespace: &str| -> Vec<(Id, ObjectUsage)> {
            let objects = lister.in_namespace(namespace);
            objects.iter().map(|o| (id(&kind, o.metadata()), object_usage(&kind, &uid(o), tree(o)))).collect()
        };
        let synced = {
            let informer = informer.clone();
            move || -> BoxFuture<'static, bool> {
                let informer = informer.clone();
                Box::pin(async move { informer.synced().await })
            }
        };
        let monitor =
            Monitor { resource: resource.clone(), in_namespace: Box::new(in_namespace), synced: Box::new(synced) };
        let key = (resource.gvr.group.clone(), resource.gvr.resource.clone());
        self.monitors.lock().insert(key, Arc::new(monitor));
        let (ledger, queue, kind) = (self.ledger.clone(), self.queue.clone(), resource.clone());
        informer.on_event(move |event| {
            let metadata = event.object().metadata();
            let namespace = metadata.namespace.as_deref().unwrap_or_default();
            let mut ledger = ledger.lock();
            if !ledger.has_quota(namespace) {
                return;
            }
            match event {
                Event::Deleted(_) => ledger.remove(namespace, &id(&kind, metadata)),
                Event::Added(object) | Event::Updated { new: object, .. } => {
                    ledger.set(namespace, id(&kind, metadata), object_usage(&kind, &uid(object), tree(object)));
                }
            }
            for quota in ledger.quotas(namespace) {
                queue.add_after(format!("{namespace}/{quota}"), BATCH_DELAY);
            }
        });
    }
}

fn can_be_counted(resource: &ApiResource) -> bool {
    let name = (resource.gvr.group.as_str(), resource.gvr.resource.as_str());
    resource.is_namespaced && resource.has_verbs(&["create", "list", "watch", "delete"]) && !IGNORED.contains(&name)
}
