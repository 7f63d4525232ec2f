//! The registry: the only way to the store. It reads and writes the objects of every resource, built in or custom.
//!
//! Reading order: a [`row`] is one stored resource. [`mutation`] describes one write, [`store`] creates and updates,
//! `stages` holds the stages of both, [`deletion`] deletes, and [`read`] gets and lists. The modules after them are the
//! parts of these verbs, then what the server itself reads and writes, and last its background loops.
//! Corresponds to k8s.io/apiserver/pkg/registry/generic/registry and pkg/registry.

pub mod row;
pub mod stored;
pub mod error;
pub mod mutation;
pub mod store;
mod attempt;
mod stages;
pub mod escalation;
mod traced;
pub mod deletion;
pub mod read;
pub mod continue_token;
pub mod converter;
pub mod conversion;
pub mod scale;
pub mod lookup;
pub mod own_write;
pub mod post_start;
pub mod upkeep;
pub mod repair;
pub mod key_change;

pub use error::{Error, Result};

use access::authz::Authorization;
use admission::{Annotations, Attributes, Chain, Operation, Reinvocation, Warnings};
use arc_swap::ArcSwap;
use cacher::encryption::Encryption;
use component_base::env::Env;
use component_base::rng::Random;
use conversion::RowVersions;
use mutation::{Admission, Mutation};
use parking_lot::RwLock;
use patch::apply::FieldManager;
use patch::apply::fields::FieldSet;
use proto::resources::{Catalogue, Resource, Target};
use proto::{Object, Status};
use row::Row;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use storage::{Change, Key, Outcome, Storage, Write};
use strategy::Strategy;
use strategy::allocation::ServiceNetwork;
use strategy::gates::Gates;
use strategy::write_context::WriteContext;

/// The rows of all stored resources, and what they share: the store, admission and authorization.
pub struct Registry {
    pub env: Env,
    pub random: Random,
    storage: Arc<dyn Storage>,
    /// The resources that are served. Replaced as a whole when a CustomResourceDefinition changes.
    pub catalogue: ArcSwap<Catalogue>,
    rows: RwLock<BTreeMap<String, Arc<Row>>>,
    admission: OnceLock<Chain>,
    /// Authorizes the content of roles and bindings, and updates that create their object.
    authorization: OnceLock<Arc<Authorization>>,
    service_network: ServiceNetwork,
    encryption: Encryption,
    /// The feature gates of the server.
    pub gates: Gates,
}

impl Registry {
    pub fn new(
        env: &Env,
        storage: Arc<dyn Storage>,
        encryption: Encryption,
        catalogue: Arc<Catalogue>,
        service_network: ServiceNetwork,
        gates: Gates,
    ) -> Self {
        Self {
            env: env.clone(),
            random: env.random("apiserver/registry"),
            storage,
            catalogue: ArcSwap::new(catalogue),
            rows: RwLock::default(),
            admission: OnceLock::new(),
            authorization: OnceLock::new(),
            service_network,
            encryption,
            gates,
        }
    }

    /// Sets the admission chain, once, after the registry exists: its plugins look objects up in the registry.
    pub fn set_admission(&self, chain: Chain) {
        let _ = self.admission.set(chain);
    }

    /// Sets the authorizers, once, after the registry exists: they read policies from its caches.
    pub fn set_authorization(&self, authorization: Arc<Authorization>) {
        let _ = self.authorization.set(authorization);
    }

    /// Creates a row and starts its watch cache; `None` for a resource that is never stored. Requests find the row once
    /// [`Self::add_row`] has added it.
    pub fn start_row(&self, resource: Arc<Resource>, strategy: Arc<dyn Strategy>) -> Option<Row> {
        Row::start(&self.env, &self.storage, resource, strategy, &self.encryption)
    }

    /// Returns why the store does not answer, or why a watch cache cannot follow it; `None` when all is well.
    pub fn trouble(&self) -> Option<String> {
        let of_a_row = || self.rows().iter().find_map(|row| row.cacher.trouble());
        self.storage.trouble().or_else(of_a_row)
    }

    pub fn add_row(&self, row: Arc<Row>) {
        self.rows.write().insert(row.prefix.clone(), row);
    }

    pub fn remove_row(&self, prefix: &str) {
        self.rows.write().remove(prefix);
    }

    pub fn rows(&self) -> Vec<Arc<Row>> {
        self.rows.read().values().cloned().collect()
    }

    /// Finds the row of a resource; 404 for a resource that is never stored.
    pub fn row(&self, resource: &Resource) -> std::result::Result<Arc<Row>, Status> {
        let prefix = row::key_prefix(resource).ok_or_else(Status::unknown_path)?;
        self.rows.read().get(&prefix).cloned().ok_or_else(Status::unknown_path)
    }

    /// Finds the row of a served group and plural, whatever the version.
    pub fn row_of(&self, group: &str, resource: &str) -> std::result::Result<(Target, Arc<Row>), Status> {
        let catalogue = self.catalogue.load();
        let target = catalogue.by_group_resource(group, resource).ok_or_else(Status::unknown_path)?;
        let row = self.row(&target.row)?;
        Ok((target, row))
    }

    /// Finds the row of a group and plural even when the resource is not served: plugins and allocators count every
    /// stored object.
    pub fn stored_row_of(&self, group: &str, resource: &str) -> std::result::Result<Arc<Row>, Status> {
        if let Ok((_, row)) = self.row_of(group, resource) {
            return Ok(row);
        }
        let catalogue = self.catalogue.load();
        let is_same = |row: &&Arc<Resource>| {
            let stored = row.storage_version();
            stored.group == group && stored.resource == resource
        };
        self.row(catalogue.rows().iter().find(is_same).ok_or_else(Status::unknown_path)?)
    }

    fn write_context<'a>(&'a self, mutation: &Mutation<'a>, name: &'a str) -> WriteContext<'a> {
        WriteContext {
            user: mutation.user,
            row: &mutation.target.row,
            served: mutation.target.served(),
            namespace: mutation.namespace,
            name,
            subresource: mutation.subresource,
            dry_run: mutation.dry_run,
            now: self.env.wall(),
            random: &self.random,
            gates: &self.gates,
            warnings: Vec::new(),
        }
    }

    /// Runs one phase of the admission chain on a write. For a write to `scale`, admission sees the Scale instead of the
    /// object.
    async fn admit(
        &self,
        operation: Operation,
        phase: Phase,
        mutation: &mut Mutation<'_>,
        object: Option<&mut Value>,
        old_object: Option<&Value>,
    ) -> Result<()> {
        if mutation.subresource != "scale" {
            return self.admit_object(operation, phase, mutation, object, old_object).await;
        }
        let target = mutation.target;
        let scale_of = |object: &Value| scale::scale_of(target.served(), object);
        let (mut scale, old) = (object.as_deref().map(scale_of).transpose()?, old_object.map(scale_of).transpose()?);
        self.admit_object(operation, phase, mutation, scale.as_mut(), old.as_ref()).await?;
        if let (Phase::Mutating, Some(scale), Some(object)) = (phase, scale, object) {
            scale::set_replicas(target.served(), object, scale["spec"]["replicas"].as_i64().unwrap_or(0));
        }
        Ok(())
    }

    async fn admit_object(
        &self,
        operation: Operation,
        phase: Phase,
        mutation: &mut Mutation<'_>,
        object: Option<&mut Value>,
        old_object: Option<&Value>,
    ) -> Result<()> {
        let chain = self.admission.get().filter(|_| mutation.admission != Admission::Skipped);
        let Some(chain) = chain else { return Ok(()) };
        let versions = RowVersions { registry: self, target: mutation.target };
        let mut attributes = Attributes {
            operation,
            served: mutation.target.served(),
            versions: &versions,
            subresource: mutation.subresource,
            namespace: mutation.namespace,
            name: if mutation.admission == Admission::Unnamed { "" } else { mutation.name },
            object,
            old_object,
            options: mutation.options,
            user: mutation.user,
            dry_run: mutation.dry_run,
            now: self.env.wall(),
            deadline: mutation.deadline,
            reinvocation: Reinvocation::default(),
            random: &self.random,
            lookup: self,
            quotas: self,
            warnings: Warnings::default(),
            annotations: Annotations::default(),
            steps: mutation.steps,
        };
        let outcome = match phase {
            Phase::Mutating => chain.admit(&mut attributes).await,
            Phase::Validating => chain.validate(&attributes).await,
        };
        let (warnings, annotations) = (attributes.warnings.take(), attributes.annotations.take());
        for (key, value) in annotations {
            mutation.annotations.entry(key).or_insert(value);
        }
        mutation.warnings.extend(warnings);
        outcome.map_err(Error::Refused)
    }

    /// Runs both phases of admission on a request that changes no object itself: `exec`, a binding, an eviction, a
    /// review. `check` validates the body between them.
    pub async fn admit_action(
        &self,
        operation: Operation,
        mutation: &mut Mutation<'_>,
        body: &mut Value,
        check: impl FnOnce(&Value) -> std::result::Result<(), Status> + Send,
    ) -> Result<()> {
        self.admit(operation, Phase::Mutating, mutation, Some(&mut *body), None).await?;
        check(body)?;
        self.admit(operation, Phase::Validating, mutation, Some(body), None).await
    }

    async fn authorize_content(&self, mutation: &Mutation<'_>, object: &Value, old: Option<&Value>) -> Result<()> {
        match self.authorization.get() {
            Some(authorization) => escalation::authorize(authorization, mutation, object, old).await,
            None => Ok(()),
        }
    }

    async fn authorize_creation(&self, mutation: &Mutation<'_>, name: &str) -> Result<()> {
        match self.authorization.get() {
            Some(authorization) => escalation::authorize_creation(authorization, mutation, name).await,
            None => Ok(()),
        }
    }

    fn field_manager<'a>(&self, mutation: &'a Mutation<'_>, reset: &'a FieldSet) -> FieldManager<'a> {
        let target = mutation.target;
        FieldManager::new(&target.row, target.served(), mutation.subresource, reset, self.env.wall())
    }

    /// Writes an object, encrypted, if its key is still at the revision `expected` (0: the key does not exist).
    /// Announces the write to the row's watch cache, which then need not decode the value.
    async fn put(&self, row: &Row, key: &str, expected: u64, object: &Object) -> Result<Outcome> {
        let key: Key = key.into();
        let value = row.transformer.seal(&key, object.bytes().clone());
        let announcement = row.reads_as_written().then(|| row.cacher.announce(&key, &value, object));
        let change = Change::Put { value, ttl: row.ttl() };
        let write = Write { key: key.clone(), expected, change };
        let outcome = self.storage.write(write).await?;
        if let (Outcome::Written { .. }, Some(announcement)) = (&outcome, announcement) {
            announcement.written();
        }
        Ok(outcome)
    }

    /// Reads the current object from the store. If the watch cache holds that revision, it is not decoded again.
    async fn current(&self, row: &Row, namespace: &str, name: &str) -> Result<Option<Arc<Object>>> {
        Ok(row.cacher.get_latest(namespace, name).await?)
    }
}

/// A phase of the admission chain.
#[derive(Clone, Copy)]
enum Phase {
    Mutating,
    Validating,
}

/// Returns the fields that an endpoint resets. A writer to that endpoint does not own them.
pub fn reset_fields(mutation: &Mutation<'_>) -> FieldSet {
    let has_status = mutation.target.served().subresource("status").is_some();
    match mutation.subresource {
        "" if has_status => FieldSet::of([["status"].as_slice()]),
        "status" if !mutation.served().schema.is_builtin() => FieldSet::of([["spec"].as_slice(), &["metadata"]]),
        "status" => FieldSet::of([["spec"].as_slice()]),
        _ => FieldSet::default(),
    }
}
