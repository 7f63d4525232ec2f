//! `Tracker` records which versions of Endpoints this controller has replaced, to detect a stale cache.
//!
//! Corresponds to staleEndpointsTracker in pkg/controller/endpoint/endpoints_tracker.go.

use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::Endpoints;
use std::collections::BTreeMap;

/// The last replaced version, by key. One is enough: a later version is replaced only after the cache shows it.
#[derive(Debug, Default)]
pub struct Tracker {
    replaced: Mutex<BTreeMap<String, Option<String>>>,
}

impl Tracker {
    pub fn record_replaced(&self, endpoints: &Endpoints) {
        self.replaced.lock().insert(endpoints.key(), endpoints.metadata.resource_version.clone());
    }

    pub fn is_stale(&self, cached: &Endpoints) -> bool {
        self.replaced.lock().get(&cached.key()).is_some_and(|version| *version == cached.metadata.resource_version)
    }

    pub fn forget(&self, key: &str) {
        self.replaced.lock().remove(key);
    }
}
