//! `Monitors` watches the metadata of every served resource that can be deleted. Where another controller watches the objects
//! themselves, its informer is shared.
//!
//! Corresponds to syncMonitors in pkg/controller/garbagecollector/graph_builder.go.

use super::absent::AbsentOwners;
use super::graph::{Graph, Identity, Work};
use client::{AnyCached, Event, EventSpec, EventType, Informers, Recorder, Regarding, WorkQueue};
use controller_base::discovery::{ApiResource, Discovered};
use parking_lot::Mutex;
use proto::Gvr;
use proto::gvk::split_api_version;
use proto::kinds::metav1::OwnerReference;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Resources that are not monitored: events expire, and no object owns them.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// The graph, the queues, and the mapping of kinds to resources.
pub struct Monitors {
    informers: Informers,
    recorder: Recorder,
    pub graph: Mutex<Graph>,
    pub absent: Mutex<AbsentOwners>,
    pub delete_queue: WorkQueue<String>,
    pub orphan_queue: WorkQueue<String>,
    served: Mutex<BTreeMap<Gvr, ApiResource>>,
    /// The resource of each kind, by `apiVersion` and kind.
    mapping: Mutex<BTreeMap<(String, String), ApiResource>>,
}

impl Monitors {
    pub fn new(
        informers: Informers,
        recorder: Recorder,
        delete_queue: WorkQueue<String>,
        orphan_queue: WorkQueue<String>,
    ) -> Arc<Self> {
        Arc::new(Self {
            informers,
            recorder,
            graph: Mutex::default(),
            absent: Mutex::default(),
            delete_queue,
            orphan_queue,
            served: Mutex::default(),
            mapping: Mutex::default(),
        })
    }

    /// Starts informers for newly served resources, and stops those of resources that are no longer served. Resources
    /// of a group that does not answer stay.
    pub fn sync(self: &Arc<Self>, discovered: &Discovered) {
        let mut mapping = BTreeMap::new();
        for resource in &discovered.resources {
            let key = (resource.gvk.api_version(), resource.gvk.kind.clone());
            // Subresources are not listed. Of two resources with the same kind, the first is the collection.
            mapping.entry(key).or_insert_with(|| resource.clone());
        }
        *self.mapping.lock() = mapping;
        let wanted: BTreeMap<Gvr, ApiResource> = discovered
            .preferred()
            .filter(|resource| resource.has_verbs(&["delete", "list", "watch"]) && !is_ignored(&resource.gvr))
            .map(|resource| (resource.gvr.clone(), resource.clone()))
            .collect();
        let before = std::mem::take(&mut *self.served.lock());
        let is_stale = |gvr: &Gvr| discovered.stale.contains(&gvr.api_version());
        for (gvr, resource) in &before {
            if !wanted.contains_key(gvr) {
                if is_stale(gvr) {
                    self.served.lock().insert(gvr.clone(), resource.clone());
                } else {
                    self.informers.stop(gvr);
                }
            }
        }
        for (gvr, resource) in wanted {
            if !before.contains_key(&gvr) {
                self.monitor(&resource);
            }
            self.served.lock().insert(gvr, resource);
        }
        self.informers.start();
    }

    /// Waits until all informers have synced; false on shutdown.
    pub async fn synced(&self) -> bool {
        self.informers.synced().await
    }

    fn monitor(self: &Arc<Self>, resource: &ApiResource) {
        let monitors = self.clone();
        let resource = resource.clone();
        let informer = self.informers.of_any_form(&resource.gvr);
        informer.on_event(move |event| monitors.observe_event(&resource, event));
    }

    fn observe_event(&self, resource: &ApiResource, event: &Event<dyn AnyCached>) {
        let metadata = event.object().meta();
        match event {
            Event::Deleted(_) => self.forget(metadata.uid.as_deref().unwrap_or_default()),
            Event::Added(_) | Event::Updated { .. } => {
                let (api_version, kind) = (resource.gvk.api_version(), &resource.gvk.kind);
                let work = self.graph.lock().observe(&resource.gvr, &api_version, kind, metadata);
                self.enqueue(work);
            }
        }
    }

    /// Removes a deleted object from the graph.
    pub fn forget(&self, uid: &str) {
        let mut graph = self.graph.lock();
        if graph.has_dependents(uid)
            && let Some(node) = graph.node(uid)
        {
            self.absent.lock().add(&node.identity);
        }
        let work = graph.remove(uid);
        drop(graph);
        self.enqueue(work);
    }

    pub fn enqueue(&self, work: Vec<Work>) {
        for work in work {
            match work {
                Work::AttemptDelete(uid) => self.delete_queue.add(uid),
                Work::AttemptOrphan(uid) => self.orphan_queue.add(uid),
                Work::ReportInvalidNamespace { dependent, owner } => self.recorder.record(report(&dependent, &owner)),
            }
        }
    }

    /// Returns the resource of a kind, in this version or in another one of the same group.
    pub fn resource_of(&self, api_version: &str, kind: &str) -> Option<ApiResource> {
        let mapping = self.mapping.lock();
        let exact = mapping.get(&(api_version.to_owned(), kind.to_owned()));
        let group = split_api_version(api_version).0;
        let other = || {
            let mut same =
                mapping.iter().filter(|((version, own), _)| own == kind && split_api_version(version).0 == group);
            same.next().map(|(_, resource)| resource)
        };
        exact.or_else(other).cloned()
    }
}

/// Returns the event about a reference across namespaces.
fn report(dependent: &Identity, owner: &OwnerReference) -> EventSpec {
    let regarding = Regarding {
        api_version: dependent.api_version.clone(),
        kind: dependent.kind.clone(),
        namespace: dependent.namespace.clone(),
        name: dependent.name.clone(),
        uid: dependent.uid.clone(),
        ..Regarding::default()
    };
    let OwnerReference { api_version, kind, name, uid, .. } = owner;
    let namespace = &dependent.namespace;
    let message = format!(
        "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does not exist in namespace {namespace:?}"
    );
    EventSpec::new(&regarding, EventType::Warning, "OwnerRefInvalidNamespace", message)
}

fn is_ignored(gvr: &Gvr) -> bool {
    IGNORED.contains(&(gvr.group.as_str(), gvr.resource.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    #[test]
    fn a_reference_across_namespaces_is_reported_on_the_dependent() {
        let dependent = Identity {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            uid: "uid-web".to_owned(),
            gvr: None,
        };
        let event = report(&dependent, &fixture::owner("apps/v1", "ReplicaSet", "elsewhere", true));
        assert_eq!(
            event.to_string(),
            "Warning OwnerRefInvalidNamespace Pod shop/web: ownerRef [apps/v1/ReplicaSet, namespace: shop, \
             name: elsewhere, uid: uid-elsewhere] does not exist in namespace \"shop\""
        );
    }
}
