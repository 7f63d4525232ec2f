//! Admission: plugins that change or refuse a write after it is authorised and before it is stored.
//!
//! Mutating plugins run in the order of `chain`, then validating ones. Objects are in the request's version.
//! Corresponds to k8s.io/apiserver/pkg/admission.

pub mod always_pull_images;
pub mod certificates;
pub mod chain;
pub mod default_class;
pub mod default_toleration_seconds;
pub mod deny_service_external_ips;
pub mod extended_resource_toleration;
pub mod limit_ranger;
pub mod namespace_exists;
pub mod namespace_lifecycle;
pub mod node_restriction;
pub mod operation;
pub mod persistent_volume_claim_resize;
pub mod pod_node_selector;
pub mod pod_parts;
pub mod pod_resources;
pub mod pod_security;
pub mod pod_topology_labels;
pub mod priority;
pub mod resource_quota;
pub mod runtime_class;
pub mod service_account;
pub mod storage_object_in_use_protection;
pub mod taint_nodes_by_condition;
#[cfg(test)]
pub mod testing;

pub use operation::Operation;

use crate::authn::user_info::UserInfo;
use crate::metrics::admission::{AdmissionMeter, Half};
use async_trait::async_trait;
use component_base::env::Env;
use component_base::rng::Random;
use jiff::Timestamp;
use parking_lot::Mutex;
use proto::resources::Served;
use proto::{Object, Status, gvk::Gvr};
use serde_json::Value;
use std::sync::Arc;
use tokio::time::Instant;

/// Which object is meant, of whatever kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey<'a> {
    pub group: &'a str,
    pub resource: &'a str,
    /// Empty for what is cluster-scoped.
    pub namespace: &'a str,
    pub name: &'a str,
}

impl<'a> ObjectKey<'a> {
    pub fn new(group: &'a str, resource: &'a str, namespace: &'a str, name: &'a str) -> Self {
        Self { group, resource, namespace, name }
    }

    pub fn cluster(group: &'a str, resource: &'a str, name: &'a str) -> Self {
        Self::new(group, resource, "", name)
    }
}

/// Reads of other objects, in their storage version.
#[async_trait]
pub trait Lookup: Send + Sync {
    /// From the watch cache; may lag behind the last write.
    fn get(&self, key: ObjectKey<'_>) -> Result<Option<Arc<Object>>, Status>;
    /// From the store: what has been written before this call is seen.
    async fn get_live(&self, key: ObjectKey<'_>) -> Result<Option<Arc<Object>>, Status>;
    /// All of a namespace, or of the cluster where `namespace` is empty; from the watch cache, in key order.
    fn list(&self, group: &str, resource: &str, namespace: &str) -> Result<Vec<Arc<Object>>, Status>;

    /// From the watch cache, and from the store what the cache does not know (yet).
    async fn find(&self, key: ObjectKey<'_>) -> Result<Option<Arc<Object>>, Status> {
        match self.get(key)? {
            Some(cached) => Ok(Some(cached)),
            None => self.get_live(key).await,
        }
    }
}

/// The one thing that a plugin writes: what a quota has given out.
#[async_trait]
pub trait QuotaStore: Send + Sync {
    /// Stores a ResourceQuota with new usage; false if it is no longer at the version that it names.
    async fn record_usage(&self, quota: &Value) -> Result<bool, Status>;
}

/// One write, as a plugin sees it.
pub struct Attributes<'a> {
    pub operation: Operation,
    /// The version that the request speaks: its kind, group and resource.
    pub served: &'a Served,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub namespace: &'a str,
    /// Empty while a name is still to be generated.
    pub name: &'a str,
    /// The new object, or a subresource's own body (Binding, Eviction); none for a deletion.
    pub object: Option<&'a mut Value>,
    /// None for a creation.
    pub old_object: Option<&'a Value>,
    /// CreateOptions, UpdateOptions, PatchOptions or DeleteOptions as the request gave them.
    pub options: &'a Value,
    pub user: &'a UserInfo,
    pub dry_run: bool,
    pub now: Timestamp,
    pub random: &'a Random,
    pub lookup: &'a dyn Lookup,
    pub quotas: &'a dyn QuotaStore,
    pub warnings: Warnings,
}

/// Collected for the answer's `Warning` headers; validating plugins, too, may warn.
#[derive(Debug, Default)]
pub struct Warnings(Mutex<Vec<String>>);

impl Warnings {
    pub fn add(&self, warning: impl Into<String>) {
        self.0.lock().push(warning.into());
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

/// What stands for an object that is not there.
static NOTHING: Value = Value::Null;

impl Attributes<'_> {
    /// The new object, or null.
    pub fn new_object(&self) -> &Value {
        self.object.as_deref().unwrap_or(&NOTHING)
    }

    /// The old object, or null.
    pub fn old(&self) -> &Value {
        self.old_object.unwrap_or(&NOTHING)
    }

    pub fn gvr(&self) -> Gvr {
        self.served.gvr()
    }

    /// Whether the write is of that resource itself (not of a subresource).
    pub fn is(&self, group: &str, resource: &str) -> bool {
        self.subresource.is_empty() && self.served.group == group && self.served.resource == resource
    }

    /// The object's name, or what stands for it until one is generated.
    pub fn shown_name(&self) -> &str {
        if !self.name.is_empty() {
            return self.name;
        }
        let meta = |key: &str| self.object.as_deref()?.get("metadata")?.get(key)?.as_str().filter(|s| !s.is_empty());
        meta("name").or_else(|| meta("generateName")).unwrap_or("Unknown")
    }

    /// 403 `pods "web" is forbidden: why`.
    pub fn forbidden(&self, why: impl std::fmt::Display) -> Status {
        Status::forbidden(&self.served.group, &self.served.resource, self.shown_name(), why)
    }
}

/// One admission plugin.
#[async_trait]
pub trait AdmissionPlugin: Send + Sync {
    /// May change the object.
    async fn admit(&self, _attributes: &mut Attributes<'_>) -> Result<(), Status> {
        Ok(())
    }
    /// Sees the object as it will be stored.
    async fn validate(&self, _attributes: &Attributes<'_>) -> Result<(), Status> {
        Ok(())
    }
}

/// One plugin of the chain.
#[derive(Clone)]
pub struct Link {
    pub looks_at: &'static [Operation],
    pub plugin: Arc<dyn AdmissionPlugin>,
    pub meter: AdmissionMeter,
}

/// The plugins in their order.
#[derive(Clone)]
pub struct Chain {
    env: Env,
    links: Vec<Link>,
    steps: AdmissionMeter,
}

impl Chain {
    pub fn new(env: &Env, links: Vec<Link>) -> Self {
        Self { env: env.clone(), links, steps: AdmissionMeter::of_step(env) }
    }

    fn looking_at(&self, operation: Operation) -> impl Iterator<Item = &Link> {
        self.links.iter().filter(move |link| link.looks_at.contains(&operation))
    }

    pub async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let operation = attributes.operation;
        let (mut began, first) = (self.env.now(), self.env.now());
        let mut outcome = Ok(());
        for link in self.looking_at(operation) {
            outcome = link.plugin.admit(attributes).await;
            began = self.measured(&link.meter, operation, Half::Admit, &outcome, began);
            if outcome.is_err() {
                break;
            }
        }
        self.measured(&self.steps, operation, Half::Admit, &outcome, first);
        outcome
    }

    pub async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let operation = attributes.operation;
        let (mut began, first) = (self.env.now(), self.env.now());
        let mut outcome = Ok(());
        for link in self.looking_at(operation) {
            outcome = link.plugin.validate(attributes).await;
            began = self.measured(&link.meter, operation, Half::Validate, &outcome, began);
            if outcome.is_err() {
                break;
            }
        }
        self.measured(&self.steps, operation, Half::Validate, &outcome, first);
        outcome
    }

    /// Answers the present, where the next measurement begins.
    fn measured(
        &self,
        meter: &AdmissionMeter,
        operation: Operation,
        half: Half,
        outcome: &Result<(), Status>,
        began: Instant,
    ) -> Instant {
        let now = self.env.now();
        meter.observe(operation, half, outcome.is_err(), now.duration_since(began));
        now
    }
}
