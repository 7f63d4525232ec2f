//! `Aggregation`: who serves which group and version at the moment, as requests look it up.
//!
//! Corresponds to the APIServiceRegistrationController and the proxy handlers of k8s.io/kube-aggregator/pkg/apiserver.

use super::api_service::{ApiService, GROUP, RESOURCE};
use super::merged::Merged;
use super::registration::trees;
use arc_swap::ArcSwap;
use cacher::Freshness;
use parking_lot::Mutex;
use registry::Registry;
use registry::post_start::Hook;
use registry::upkeep::Upkeep;
use remote::callers::{Callers, Trust};
use remote::reference::ServiceReference;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Pause before the APIServices are read again when that failed.
const AGAIN: Duration = Duration::from_secs(1);

/// A group and version that another server serves.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteVersion {
    /// Of the APIService.
    pub name: String,
    pub group: String,
    pub version: String,
    pub group_priority: i64,
    pub version_priority: i64,
    pub service: ServiceReference,
    pub trust: Trust,
    pub is_available: bool,
    pub learnt: Learnt,
}

/// What the server has last told about what it serves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Learnt {
    /// Its APIResourceList; `None` as long as it never answered.
    pub resources: Option<Arc<Value>>,
    /// Where its OpenAPI v3 index says that the document is.
    pub v3_url: Option<String>,
    /// Its OpenAPI v2 document, and the tag to ask with whether it is still the same.
    pub v2: Option<Arc<Value>>,
    pub v2_tag: Option<String>,
}

/// By group and version.
pub type Table = BTreeMap<(String, String), Arc<RemoteVersion>>;

pub struct Aggregation {
    pub callers: Arc<Callers>,
    table: ArcSwap<Table>,
    /// By the name of the APIService.
    learnt: Mutex<BTreeMap<String, Learnt>>,
    /// APIServices whose servers did not answer a request: they are looked at at once.
    suspects: Mutex<BTreeSet<String>>,
    pub(super) suspected: Notify,
    pub(super) merged: Merged,
}

impl Aggregation {
    pub fn new(callers: Arc<Callers>) -> Self {
        Self {
            callers,
            table: ArcSwap::default(),
            learnt: Mutex::default(),
            suspects: Mutex::default(),
            suspected: Notify::new(),
            merged: Merged::default(),
        }
    }

    pub fn table(&self) -> Arc<Table> {
        self.table.load_full()
    }

    /// Who else serves this path: everything below `/apis/<group>/<version>`.
    pub fn of_path(&self, path: &str) -> Option<Arc<RemoteVersion>> {
        let table = self.table.load();
        if table.is_empty() {
            return None;
        }
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        if parts.next() != Some("apis") {
            return None;
        }
        let key = (parts.next()?.to_owned(), parts.next()?.to_owned());
        table.get(&key).cloned()
    }

    pub(super) fn learn(&self, name: &str, learnt: Learnt) {
        self.learnt.lock().insert(name.to_owned(), learnt);
    }

    pub(super) fn learnt(&self, name: &str) -> Learnt {
        self.learnt.lock().get(name).cloned().unwrap_or_default()
    }

    /// A server did not answer.
    pub fn suspect(&self, name: &str) {
        self.suspects.lock().insert(name.to_owned());
        self.suspected.notify_one();
    }

    pub(super) fn take_suspects(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.suspects.lock())
    }

    /// Makes the table anew of the APIServices that there are.
    pub(super) fn rebuild(&self, services: &[Arc<Value>]) {
        let services = services.iter().map(|service| ApiService(service));
        let table: Table = services
            .filter_map(|service| {
                let remote = remote(service, self.learnt(service.name()))?;
                Some(((remote.group.clone(), remote.version.clone()), Arc::new(remote)))
            })
            .collect();
        let names: BTreeSet<&str> = table.values().map(|remote| remote.name.as_str()).collect();
        self.learnt.lock().retain(|name, _| names.contains(name.as_str()));
        if **self.table.load() != table {
            self.table.store(Arc::new(table));
        }
    }

    /// The same of what the cache holds.
    pub(super) fn refresh(&self, registry: &Registry) {
        let Ok((_, row)) = registry.row_of(GROUP, RESOURCE) else { return };
        if let Ok(snapshot) = row.cacher.snapshot() {
            self.rebuild(&trees(&snapshot));
        }
    }
}

/// The core group is always this server's.
fn remote(service: ApiService<'_>, learnt: Learnt) -> Option<RemoteVersion> {
    let reference = service.service().filter(|_| !service.group().is_empty())?;
    Some(RemoteVersion {
        name: service.name().to_owned(),
        group: service.group().to_owned(),
        version: service.version().to_owned(),
        group_priority: service.group_priority(),
        version_priority: service.version_priority(),
        service: reference,
        trust: service.trust(),
        is_available: service.is_available(),
        learnt,
    })
}

/// Keeps the table as the APIServices say, until shutdown.
pub async fn run(upkeep: Upkeep, aggregation: Arc<Aggregation>) {
    let registry = &upkeep.registry;
    let follow = async {
        upkeep.hooks.finished(Hook::ApiServiceRegistration);
        // Where APIServices are not served there are none.
        let Ok((_, services)) = registry.row_of(GROUP, RESOURCE) else {
            upkeep.hooks.finished(Hook::AggregatorInformers);
            upkeep.hooks.finished(Hook::ApiServiceFirstSync);
            return;
        };
        let mut freshness = Freshness::Latest;
        loop {
            let Ok(snapshot) = services.cacher.read(freshness).await else {
                registry.env.sleep(AGAIN).await;
                continue;
            };
            freshness = Freshness::Any;
            upkeep.hooks.finished(Hook::AggregatorInformers);
            aggregation.rebuild(&trees(&snapshot));
            upkeep.hooks.finished(Hook::ApiServiceFirstSync);
            services.cacher.changed(&snapshot).await;
        }
    };
    upkeep.until_shutdown(follow).await;
}
