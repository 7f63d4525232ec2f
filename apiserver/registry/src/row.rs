//! `Row`: one stored resource at work: its keys, its cache, its strategy.
//!
//! Corresponds to the fields of k8s.io/apiserver/pkg/registry/generic/registry.Store.

use super::converter::{Converter, Recent};
use super::stored::decoder;
use cacher::encryption::{Encryption, Transformer};
use cacher::{Cacher, object_key};
use component_base::env::Env;
use proto::Object;
use proto::resources::Resource;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use storage::Storage;
use strategy::Strategy;

/// How long Events live where nothing else is said.
pub const EVENT_TTL: Duration = Duration::from_secs(3600);

pub struct Row {
    pub resource: Arc<Resource>,
    pub cacher: Cacher,
    pub strategy: Arc<dyn Strategy>,
    /// Where only somebody else can convert between the versions.
    pub converter: Option<Arc<dyn Converter>>,
    pub recent: Recent,
    /// How long Events live: `--event-ttl`.
    pub event_ttl: Duration,
    /// `/registry/<prefix>/`
    pub prefix: String,
    /// How values lie in the store.
    pub transformer: Transformer,
}

/// The prefix of a stored row's keys; `None` for what is never stored.
pub fn key_prefix(resource: &Resource) -> Option<String> {
    resource.prefix.as_ref().map(|prefix| format!("/registry/{prefix}/"))
}

impl Row {
    pub fn key(&self, namespace: &str, name: &str) -> String {
        object_key(&self.prefix, namespace, name)
    }

    /// How long an object of this row lives after its last write; `None`: until it is deleted.
    pub fn ttl(&self) -> Option<Duration> {
        self.resource.expires.then_some(self.event_ttl)
    }

    /// Waits until this server's own cache has the write, where the server itself acts by such objects.
    pub async fn wait_until_followed(&self, revision: u64) {
        if self.resource.is_followed_by_server {
            self.cacher.reached(revision).await;
        }
    }

    /// An object out of a tree in the storage version.
    pub fn object(&self, value: Value, revision: u64) -> Object {
        let fields = self.resource.fields_of(&value);
        Object::from_value(value, revision, fields)
    }

    /// Whether what is read is just what was written. A custom resource is pruned and filled by the schema of the moment.
    pub fn reads_as_written(&self) -> bool {
        self.resource.storage_version().schema.is_builtin()
    }

    /// What a dry run would have stored; `given` is the `resourceVersion` that its writer named.
    pub fn tried(&self, value: Value, given: &str) -> Object {
        let fields = self.resource.fields_of(&value);
        Object::tried(value, given, fields)
    }
}

impl Row {
    /// Starts to follow the row's keys in the store; `None` for what is never stored.
    pub(super) fn start(
        env: &Env,
        storage: &Arc<dyn Storage>,
        resource: Arc<Resource>,
        strategy: Arc<dyn Strategy>,
        encryption: &Encryption,
    ) -> Option<Self> {
        let prefix = key_prefix(&resource)?;
        let stored = resource.storage_version();
        let transformer = encryption.of(&stored.group, &stored.resource);
        let cacher = Cacher::new(env, storage.clone(), &prefix, decoder(&resource, &prefix, &transformer));
        let (converter, recent) = (None, Recent::default());
        Some(Self { resource, cacher, strategy, converter, recent, event_ttl: EVENT_TTL, prefix, transformer })
    }
}
