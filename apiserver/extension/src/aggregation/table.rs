//! `Aggregation`: the table of group versions that other servers serve, in which requests look up their server.
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
use remote::clients::{Clients, Trust};
use remote::reference::ServiceReference;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Pause before the APIServices are read again after a failure.
const RETRY_PERIOD: Duration = Duration::from_secs(1);

/// A group version that another server serves.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteVersion {
    /// The name of the APIService.
    pub name: String,
    pub group: String,
    pub version: String,
    pub group_priority: i64,
    pub version_priority: i64,
    pub service: ServiceReference,
    pub trust: Trust,
    pub is_available: bool,
    pub documents: RemoteDocuments,
}

/// The documents that a server last returned about a group version.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RemoteDocuments {
    /// Its APIResourceList; `None` while the server has never answered.
    pub resources: Option<Arc<Value>>,
    /// The URL of its OpenAPI v3 document, from the server's index.
    pub v3_url: Option<String>,
    /// Its part of the server's OpenAPI v2 document.
    pub v2: Option<Arc<Value>>,
    /// The ETag of the OpenAPI v2 document.
    pub v2_tag: Option<String>,
}

/// The group versions of other servers, by group and version.
pub type Table = BTreeMap<(String, String), Arc<RemoteVersion>>;

/// The aggregated group versions, and the clients of their servers.
pub struct Aggregation {
    pub clients: Arc<Clients>,
    table: ArcSwap<Table>,
    /// Documents by the name of the APIService.
    documents: Mutex<BTreeMap<String, RemoteDocuments>>,
    /// APIServices whose server did not answer a request. They are checked at once.
    unreachable: Mutex<BTreeSet<String>>,
    pub(super) unreachable_reported: Notify,
    pub(super) merged: Merged,
}

impl Aggregation {
    pub fn new(clients: Arc<Clients>) -> Self {
        Self {
            clients,
            table: ArcSwap::default(),
            documents: Mutex::default(),
            unreachable: Mutex::default(),
            unreachable_reported: Notify::new(),
            merged: Merged::default(),
        }
    }

    pub fn table(&self) -> Arc<Table> {
        self.table.load_full()
    }

    /// Finds the other server that serves a path below `/apis/<group>/<version>`.
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

    pub(super) fn store_documents(&self, name: &str, documents: RemoteDocuments) {
        self.documents.lock().insert(name.to_owned(), documents);
    }

    pub(super) fn documents(&self, name: &str) -> RemoteDocuments {
        self.documents.lock().get(name).cloned().unwrap_or_default()
    }

    /// Reports that the server of an APIService did not answer a request.
    pub fn report_unreachable(&self, name: &str) {
        self.unreachable.lock().insert(name.to_owned());
        self.unreachable_reported.notify_one();
    }

    pub(super) fn take_unreachable(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.unreachable.lock())
    }

    /// Rebuilds the table from the APIServices.
    pub(super) fn rebuild(&self, services: &[Arc<Value>]) {
        let services = services.iter().map(|service| ApiService(service));
        let table: Table = services
            .filter_map(|service| {
                let remote = remote(service, self.documents(service.name()))?;
                Some(((remote.group.clone(), remote.version.clone()), Arc::new(remote)))
            })
            .collect();
        let names: BTreeSet<&str> = table.values().map(|remote| remote.name.as_str()).collect();
        self.documents.lock().retain(|name, _| names.contains(name.as_str()));
        if **self.table.load() != table {
            self.table.store(Arc::new(table));
        }
    }

    /// Rebuilds the table from the APIServices in the watch cache.
    pub(super) fn refresh(&self, registry: &Registry) {
        let Ok((_, row)) = registry.row_of(GROUP, RESOURCE) else { return };
        if let Ok(snapshot) = row.cacher.snapshot() {
            self.rebuild(&trees(&snapshot));
        }
    }
}

/// Returns the table's entry of an APIService; `None` for a local one. The core group is always local.
fn remote(service: ApiService<'_>, documents: RemoteDocuments) -> Option<RemoteVersion> {
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
        documents,
    })
}

/// Rebuilds the table whenever an APIService changes, until shutdown.
pub async fn run(upkeep: Upkeep, aggregation: Arc<Aggregation>) {
    let registry = &upkeep.registry;
    let follow = async {
        upkeep.hooks.finished(Hook::ApiServiceRegistration);
        // Without the API of APIServices there are none.
        let Ok((_, services)) = registry.row_of(GROUP, RESOURCE) else {
            upkeep.hooks.finished(Hook::AggregatorInformers);
            upkeep.hooks.finished(Hook::ApiServiceFirstSync);
            return;
        };
        let mut freshness = Freshness::Latest;
        loop {
            let Ok(snapshot) = services.cacher.read(freshness).await else {
                registry.env.sleep(RETRY_PERIOD).await;
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
