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

/// Kinds whose deletion answers with what was deleted instead of a Status.
const RETURN_DELETED: &[(&str, &str)] = &[
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("", "pods"),
    ("", "podtemplates"),
    ("", "resourcequotas"),
    ("", "serviceaccounts"),
    ("", "services"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "resourceclaims"),
    ("resource.k8s.io", "resourceclaimtemplates"),
    ("resource.k8s.io", "resourceslices"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "csistoragecapacities"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "volumeattachments"),
    ("storage.k8s.io", "volumeattributesclasses"),
];

/// Kinds that the server itself obeys, in what it allows, admits and completes.
const OBEYED: &[(&str, &str)] = &[
    ("", "limitranges"),
    ("", "resourcequotas"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("networking.k8s.io", "ingressclasses"),
    ("node.k8s.io", "runtimeclasses"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "roles"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("storage.k8s.io", "storageclasses"),
];

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

    /// How long an object of this row lives from its last write; `None`: for ever.
    pub fn ttl(&self) -> Option<Duration> {
        let is_event = self.resource.storage_version().resource == "events";
        is_event.then_some(self.event_ttl)
    }

    pub fn returns_deleted(&self) -> bool {
        let storage = self.resource.storage_version();
        RETURN_DELETED.contains(&(storage.group.as_ref(), storage.resource.as_ref()))
    }

    /// A write is answered when this server's own cache knows of it, where the server obeys such objects: who has been
    /// told that a rule stands may rely on it with the next request.
    pub async fn obeyed(&self, revision: u64) {
        let storage = self.resource.storage_version();
        if OBEYED.contains(&(storage.group.as_ref(), storage.resource.as_ref())) {
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

    /// Namespaces hold back their own end with `spec.finalizers`, beside the finalizers that every object has.
    pub fn is_held(&self, object: &Value) -> bool {
        let storage = self.resource.storage_version();
        storage.resource == "namespaces"
            && storage.group.is_empty()
            && object.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|f| !f.is_empty())
    }
}

impl Row {
    /// Starts to follow the row's keys in the store; `None` for what is never stored.
    pub fn start(
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
