//! `ObjectCache`: the ConfigMaps and Secrets that pods of the fleet refer to.
//!
//! Corresponds to pkg/kubelet/util/manager. A pod that starts sees objects as they were when it was created, or later. A
//! running pod sees a change within a minute, as with a kubelet that polls. An immutable object is read once.
//!
//! Deviation: nodes of one process share what they have read. A kubelet reads, or watches, for itself alone.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use client::Client;
use component_base::env::Env;
use parking_lot::Mutex;
use pod_life::needs::device_claims;
use pod_life::needs::freshness::is_fresh;
use pod_life::needs::references::{Entries, Objects, ReadError, Reference, Source};
use proto::kinds::api::core::v1::{Pod, PodStatus};
use proto::kinds::api::resource::v1::ResourceClaim;
use proto::kinds::jiff::Timestamp;
use proto::{Gvr, Kind};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many objects are kept before those that are too old are dropped.
const SWEEP_AT: usize = 10_000;

/// What was read, by namespace and reference.
#[derive(Debug, Default)]
pub struct ObjectCache(Mutex<BTreeMap<(String, Reference), Cached>>);

#[derive(Clone, Debug)]
struct Cached {
    entries: Arc<Entries>,
    is_immutable: bool,
    read_at: Timestamp,
}

impl Cached {
    fn is_fresh(&self, since: Timestamp, now: Timestamp) -> bool {
        self.is_immutable || is_fresh(self.read_at, since, now)
    }
}

impl ObjectCache {
    /// Reads these objects with a node's identity, unless they were read a short time ago and after `since`. A missing
    /// one is looked for each time.
    pub async fn read(
        &self,
        node: &Client,
        env: &Env,
        namespace: &str,
        references: BTreeSet<Reference>,
        since: Timestamp,
    ) -> Objects {
        let mut objects = Objects::default();
        for reference in references {
            let entries = match self.cached(namespace, &reference, since, env.wall()) {
                Some(entries) => Ok(entries),
                None => match self.read_one(node, env, namespace, &reference).await {
                    Err(ReadError::Failed(error)) => {
                        self.last_read(namespace, &reference, since).ok_or(ReadError::Failed(error))
                    }
                    read => read,
                },
            };
            objects.sources.insert(reference, entries);
        }
        objects
    }

    /// Reads the ResourceClaims of a pod. Nothing of them is remembered.
    pub async fn read_device_claims(
        node: &Client,
        pod: &Pod,
        status: &PodStatus,
    ) -> BTreeMap<String, Result<Arc<ResourceClaim>, String>> {
        let mut read = BTreeMap::new();
        for name in device_claims::names(pod, status) {
            let found = node.api::<ResourceClaim>(pod.namespace()).get(&name).await;
            read.insert(name, found.map(Arc::new).map_err(|error| error.to_string()));
        }
        read
    }

    fn cached(&self, namespace: &str, reference: &Reference, since: Timestamp, now: Timestamp) -> Option<Arc<Entries>> {
        let cache = self.0.lock();
        let known = cache.get(&(namespace.to_owned(), reference.clone()))?;
        known.is_fresh(since, now).then(|| known.entries.clone())
    }

    /// Returns what was read last, however long ago, if that was after `since`: while the API server is away, containers
    /// restart with it.
    fn last_read(&self, namespace: &str, reference: &Reference, since: Timestamp) -> Option<Arc<Entries>> {
        let cache = self.0.lock();
        let known = cache.get(&(namespace.to_owned(), reference.clone()))?;
        (known.read_at >= since).then(|| known.entries.clone())
    }

    async fn read_one(
        &self,
        node: &Client,
        env: &Env,
        namespace: &str,
        reference: &Reference,
    ) -> Result<Arc<Entries>, ReadError> {
        let plural = match reference.source {
            Source::ConfigMap => "configmaps",
            Source::Secret => "secrets",
        };
        let read_at = env.wall();
        let object = match node.dynamic(&Gvr::new("", "v1", plural), namespace).get(&reference.name).await {
            Ok(object) => object,
            Err(error) if error.is_not_found() => {
                self.0.lock().remove(&(namespace.to_owned(), reference.clone()));
                return Err(ReadError::NotFound);
            }
            Err(error) => return Err(ReadError::Failed(error.to_string())),
        };
        let entries = Arc::new(entries_of(reference.source, &object));
        let mut cache = self.0.lock();
        if cache.len() >= SWEEP_AT {
            cache.retain(|_, known| !known.is_immutable && known.is_fresh(known.read_at, read_at));
        }
        let known = Cached { entries: entries.clone(), is_immutable: object["immutable"] == true, read_at };
        cache.insert((namespace.to_owned(), reference.clone()), known);
        Ok(entries)
    }
}

/// Decodes the entries of an object.
fn entries_of(source: Source, object: &Value) -> Entries {
    let field = |name: &str| object[name].as_object().into_iter().flatten();
    let plain = |(key, value): (&String, &Value)| (key.clone(), value.as_str().unwrap_or_default().as_bytes().to_vec());
    let decoded = |(key, value): (&String, &Value)| {
        (key.clone(), BASE64.decode(value.as_str().unwrap_or_default()).unwrap_or_default())
    };
    match source {
        Source::ConfigMap => field("data").map(plain).chain(field("binaryData").map(decoded)).collect(),
        Source::Secret => field("data").map(decoded).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn binary_entries_are_decoded() {
        let map = json!({"data": {"a": "eA=="}, "binaryData": {"b": "eA=="}});
        let entries = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect::<Entries>()
        };
        assert_eq!(entries_of(Source::ConfigMap, &map), entries(&[("a", "eA=="), ("b", "x")]));
        assert_eq!(entries_of(Source::Secret, &map), entries(&[("a", "x")]));
    }
}
