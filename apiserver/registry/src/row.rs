//! `Row`: one stored resource, with its keys, its watch cache and its strategy.
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

/// Default time to live of Events.
pub const EVENT_TTL: Duration = Duration::from_secs(3600);

/// One stored resource.
pub struct Row {
    pub resource: Arc<Resource>,
    pub cacher: Cacher,
    pub strategy: Arc<dyn Strategy>,
    /// Conversion webhook of a custom resource; `None` when this server converts by itself.
    pub converter: Option<Arc<dyn Converter>>,
    pub recent: Recent,
    /// Time to live of Events, from `--event-ttl`.
    pub event_ttl: Duration,
    /// What the keys begin with: `/registry/<prefix>/`.
    pub prefix: String,
    /// Encrypts and decrypts the values in the store.
    pub transformer: Transformer,
}

/// Returns the prefix of a resource's keys; `None` for a resource that is never stored.
pub fn key_prefix(resource: &Resource) -> Option<String> {
    resource.prefix.as_ref().map(|prefix| format!("/registry/{prefix}/"))
}

impl Row {
    pub fn key(&self, namespace: &str, name: &str) -> String {
        object_key(&self.prefix, namespace, name)
    }

    /// Returns how long an object lives after its last write; `None` when it lives until it is deleted.
    pub fn ttl(&self) -> Option<Duration> {
        self.resource.expires.then_some(self.event_ttl)
    }

    /// Waits until this server's watch cache has the write, if the server itself acts on objects of this resource.
    pub async fn wait_until_followed(&self, revision: u64) {
        if self.resource.is_followed_by_server {
            self.cacher.reached(revision).await;
        }
    }

    /// Makes an object from a JSON value in the storage version.
    pub fn object(&self, value: Value, revision: u64) -> Object {
        let fields = self.resource.fields_of(&value);
        Object::from_value(value, revision, fields)
    }

    /// Tells whether a reader gets exactly what was written. A custom resource is pruned and defaulted when it is read.
    pub fn reads_as_written(&self) -> bool {
        self.resource.storage_version().schema.is_builtin()
    }

    /// Makes the object that a dry run would have stored; `given` is the `resourceVersion` in its body.
    pub fn dry_run_object(&self, value: Value, given: &str) -> Object {
        let fields = self.resource.fields_of(&value);
        Object::of_dry_run(value, given, fields)
    }
}

impl Row {
    /// Creates a row and starts its watch cache; `None` for a resource that is never stored.
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
