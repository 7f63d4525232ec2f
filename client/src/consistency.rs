//! `ConsistencyStore`: the versions that a controller wrote, so that it does not decide from an older cache.
//!
//! A cache lags: a controller that has just created a ReplicaSet may not find it there. In Kubernetes 1.36 the
//! controllers of ReplicaSets, Jobs, DaemonSets and StatefulSets remember the `resourceVersion` of each answered write, by
//! owner, and wait until the cache of that resource has reached it.
//!
//! ```text
//!   wrote_at("default/web", replicasets, 17)     the answer to a write
//!   ensure_ready("default/web")  →  Stale        the cache of replica sets is as of 15
//!   ensure_ready("default/web")  →  Ok           it is as of 17 or later
//! ```
//!
//! A write whose answer was lost is not remembered. Nothing is kept across restarts: a new process starts with a list
//! that is not older than its start.
//!
//! Corresponds to pkg/controller/util/consistency of k8s.io/kubernetes.

use crate::lister::Lister;
use parking_lot::Mutex;
use proto::gvk::Gvr;
use proto::kinds::Kind;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the version of a cache.
type SyncedVersion = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

/// The written versions; clones share them.
#[derive(Clone, Default)]
pub struct ConsistencyStore {
    caches: BTreeMap<Gvr, SyncedVersion>,
    /// Written versions by the key of the owner, that is the object that the controller reconciled.
    written: Arc<Mutex<BTreeMap<String, Written>>>,
}

#[derive(Debug)]
struct Written {
    owner_uid: String,
    /// The newest written version of each resource.
    versions: BTreeMap<Gvr, u64>,
}

/// A cache that is older than the writes of its reader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cache of {resource} is as of version {read}, and version {wrote} was written")]
pub struct Stale {
    pub resource: String,
    pub read: u64,
    pub wrote: u64,
}

impl ConsistencyStore {
    /// Adds the cache of a kind. Writes of a kind without a cache are not remembered.
    #[must_use]
    pub fn reading<K: Kind>(mut self, cache: &Lister<K>) -> Self {
        let cache = cache.clone();
        self.caches.insert(K::gvr(), Arc::new(move || cache.synced_version()));
        self
    }

    /// Remembers a write for an owner. A version that is not newer than the last one changes nothing.
    pub fn wrote_at(&self, owner: &str, owner_uid: &str, resource: &Gvr, version: u64) {
        if !self.caches.contains_key(resource) {
            return;
        }
        let mut written = self.written.lock();
        let new = || Written { owner_uid: owner_uid.to_owned(), versions: BTreeMap::new() };
        let of_owner = written.entry(owner.to_owned()).or_insert_with(new);
        if of_owner.owner_uid != owner_uid {
            *of_owner = new();
        }
        let newest = of_owner.versions.entry(resource.clone()).or_default();
        *newest = version.max(*newest);
    }

    /// Remembers the write of the object in the server's answer, if it has a version.
    pub fn answered(&self, owner: &str, owner_uid: &str, resource: &Gvr, answer: &Value) {
        if let Some(version) = answer["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()) {
            self.wrote_at(owner, owner_uid, resource, version);
        }
    }

    /// Checks that every cache has the writes for the owner. Call it before reading the caches, which only get newer.
    pub fn ensure_ready(&self, owner: &str) -> Result<(), Stale> {
        let mut written = self.written.lock();
        let Some(of_owner) = written.get(owner) else { return Ok(()) };
        for (resource, wrote) in &of_owner.versions {
            // There is no waiting for a cache whose version is unknown.
            let read = self.caches.get(resource).and_then(|synced_version| synced_version());
            if let Some(read) = read.filter(|read| read < wrote) {
                return Err(Stale { resource: resource.qualified_resource(), read, wrote: *wrote });
            }
        }
        written.remove(owner);
        Ok(())
    }

    /// Forgets an owner that was deleted or recreated.
    pub fn clear(&self, owner: &str) {
        self.written.lock().remove(owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use proto::kinds::api::apps::v1::ReplicaSet;
    use proto::kinds::api::core::v1::{ConfigMap, Pod};
    use serde_json::json;

    fn cache<K: Kind>() -> (Arc<Store>, Lister<K>) {
        let store: Arc<Store> = Arc::default();
        (store.clone(), Lister::new(store))
    }

    #[test]
    fn a_cache_has_to_show_what_was_written() {
        let ((pods, of_pods), (replica_sets, of_replica_sets)) = (cache::<Pod>(), cache::<ReplicaSet>());
        let consistency = ConsistencyStore::default().reading(&of_pods).reading(&of_replica_sets);
        let is_ready = || consistency.ensure_ready("default/web").is_ok();
        assert!(is_ready(), "nothing was written");
        pods.advance(Some(3));
        replica_sets.advance(Some(3));
        consistency.wrote_at("default/web", "u", &Pod::gvr(), 5);
        consistency.wrote_at("default/web", "u", &Pod::gvr(), 4);
        consistency.answered("default/web", "u", &ReplicaSet::gvr(), &json!({"metadata": {"resourceVersion": "6"}}));
        assert!(consistency.ensure_ready("default/other").is_ok(), "somebody else's writes");
        pods.advance(Some(9));
        let stale = consistency.ensure_ready("default/web").unwrap_err().to_string();
        assert_eq!(stale, "the cache of replicasets.apps is as of version 3, and version 6 was written");
        pods.advance(Some(4));
        replica_sets.advance(Some(6));
        assert!(!is_ready(), "one of both");
        pods.advance(Some(5));
        assert!(is_ready());
        pods.advance(Some(1));
        assert!(is_ready(), "what was seen once is forgotten");
    }

    #[test]
    fn what_cannot_be_waited_for_is_not() {
        let (pods, of_pods) = cache::<Pod>();
        let consistency = ConsistencyStore::default().reading(&of_pods);
        consistency.wrote_at("default/web", "u", &Pod::gvr(), 5);
        assert!(consistency.ensure_ready("default/web").is_ok(), "the version of the cache is not known");
        pods.advance(Some(1));
        consistency.wrote_at("default/web", "u", &ConfigMap::gvr(), 5);
        consistency.answered("default/web", "u", &Pod::gvr(), &json!({"kind": "Status"}));
        assert!(consistency.ensure_ready("default/web").is_ok());
        consistency.wrote_at("default/web", "u", &Pod::gvr(), 5);
        consistency.clear("default/web");
        assert!(consistency.ensure_ready("default/web").is_ok(), "the owner is gone");
        consistency.wrote_at("default/web", "u", &Pod::gvr(), 5);
        pods.advance(Some(3));
        consistency.wrote_at("default/web", "v", &Pod::gvr(), 3);
        assert!(consistency.ensure_ready("default/web").is_ok(), "another owner of the same name");
    }
}
