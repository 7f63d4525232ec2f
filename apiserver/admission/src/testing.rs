//! `Write`: builds one write and the objects of a cluster, to run a plugin in a test.
//!
//! Corresponds to admission.NewAttributesRecord as Kubernetes' tests use it.

use super::{AdmissionPlugin, Annotations, Attributes, Operation, QuotaStore, Reinvocation, Versions, Warnings};
use async_trait::async_trait;
use cacher::lookup::{Lookup, ObjectKey};
use component_base::rng::Random;
use parking_lot::Mutex;
use proto::resources::{Catalogue, Target};
use proto::{Gvk, Gvr, Object, Status};
use request::UserInfo;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

type Key = [String; 4];

/// The resource version of all objects.
const REVISION: u64 = 7;

/// The objects of a cluster. Cache and store are separate, as the cache may lag behind.
#[derive(Default)]
struct Objects {
    cached: BTreeMap<Key, Arc<Object>>,
    live: BTreeMap<Key, Arc<Object>>,
    recorded: Mutex<Vec<Value>>,
}

fn owned(key: ObjectKey<'_>) -> Key {
    [key.group, key.resource, key.namespace, key.name].map(str::to_owned)
}

#[async_trait]
impl Lookup for Objects {
    fn get(&self, key: ObjectKey<'_>) -> Result<Option<Arc<Object>>, Status> {
        Ok(self.cached.get(&owned(key)).cloned())
    }

    async fn get_live(&self, key: ObjectKey<'_>) -> Result<Option<Arc<Object>>, Status> {
        Ok(self.live.get(&owned(key)).cloned())
    }

    fn list(&self, group: &str, resource: &str, namespace: &str) -> Result<Vec<Arc<Object>>, Status> {
        let wanted = |k: &Key| k[0] == group && k[1] == resource && (namespace.is_empty() || k[2] == namespace);
        Ok(self.cached.iter().filter(|(k, _)| wanted(k)).map(|(_, object)| object.clone()).collect())
    }

    fn kind(&self, gvk: &Gvk) -> Option<Target> {
        Catalogue::complete().by_gvk(gvk)
    }

    async fn as_kind(&self, target: &Target, object: &Object) -> Result<Value, Status> {
        Ok(target.served().from_storage(object.to_value()))
    }
}

#[async_trait]
impl QuotaStore for Objects {
    async fn record_usage(&self, quota: &Value) -> Result<bool, Status> {
        self.recorded.lock().push(quota.clone());
        Ok(true)
    }
}

/// The versions of a built-in resource.
struct BuiltIn(Target);

#[async_trait]
impl Versions for BuiltIn {
    fn target(&self) -> &Target {
        &self.0
    }

    async fn convert(&self, object: Value, from: usize, to: usize) -> Result<Value, Status> {
        let row = &self.0.row;
        Ok(row.served[to].from_storage(row.to_storage(from, object)))
    }
}

/// A write, as a table test describes it.
pub struct Write {
    operation: Operation,
    group: String,
    resource: String,
    /// Empty means the preferred version.
    version: String,
    subresource: String,
    name: String,
    namespace: String,
    object: Option<Value>,
    old: Option<Value>,
    options: Value,
    user: UserInfo,
    objects: Objects,
    now: String,
    dry_run: bool,
}

/// The result of running plugins over a write.
#[derive(Debug)]
pub struct Outcome {
    pub object: Value,
    pub warnings: Vec<String>,
    pub annotations: BTreeMap<String, String>,
    pub error: Option<Status>,
    /// The quotas that the plugin stored.
    pub recorded: Vec<Value>,
}

impl Outcome {
    /// Returns the message of the rejection, or the empty text.
    pub fn message(&self) -> &str {
        self.error.as_ref().map_or("", |error| error.message.as_str())
    }

    /// Returns the admitted object.
    pub fn passed(self) -> Value {
        assert_eq!(self.error, None);
        self.object
    }
}

impl Write {
    fn of(operation: Operation, group: &str, resource: &str, object: Option<Value>, old: Option<Value>) -> Self {
        let shown = object.as_ref().or(old.as_ref()).cloned().unwrap_or_default();
        let meta = |key: &str| shown["metadata"][key].as_str().unwrap_or_default().to_owned();
        Self {
            operation,
            group: group.into(),
            resource: resource.into(),
            version: String::new(),
            subresource: String::new(),
            name: if operation == Operation::Create { String::new() } else { meta("name") },
            namespace: meta("namespace"),
            object,
            old,
            options: json!({}),
            user: UserInfo::new("ann", &["system:authenticated"]),
            objects: Objects::default(),
            now: "2026-01-01T00:00:00Z".into(),
            dry_run: false,
        }
    }

    pub fn create(group: &str, resource: &str, object: Value) -> Self {
        Self::of(Operation::Create, group, resource, Some(object), None)
    }

    pub fn update(group: &str, resource: &str, old: Value, object: Value) -> Self {
        Self::of(Operation::Update, group, resource, Some(object), Some(old))
    }

    pub fn delete(group: &str, resource: &str, old: Value) -> Self {
        Self::of(Operation::Delete, group, resource, None, Some(old))
    }

    pub fn version(mut self, version: &str) -> Self {
        self.version = version.into();
        self
    }

    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = subresource.into();
        self
    }

    pub fn by(mut self, name: &str, groups: &[&str]) -> Self {
        self.user = UserInfo::new(name, groups);
        self
    }

    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    pub fn at(mut self, now: &str) -> Self {
        self.now = now.into();
        self
    }

    /// Adds an object to the cache and the store.
    pub fn beside(self, group: &str, resource: &str, object: Value) -> Self {
        let stale = object.clone();
        self.only_live(group, resource, object).only_cached(group, resource, stale)
    }

    pub fn only_live(mut self, group: &str, resource: &str, object: Value) -> Self {
        self.objects.live.insert(key_of(group, resource, &object), stored(object));
        self
    }

    pub fn only_cached(mut self, group: &str, resource: &str, object: Value) -> Self {
        self.objects.cached.insert(key_of(group, resource, &object), stored(object));
        self
    }

    /// Runs `admit` and `validate` of a plugin.
    pub async fn run(self, plugin: &dyn AdmissionPlugin) -> Outcome {
        self.see(async |attributes| match plugin.admit(attributes).await {
            Ok(()) => plugin.validate(attributes).await,
            refused => refused,
        })
        .await
    }

    /// Calls `look` with the attributes of the write.
    pub async fn see(self, look: impl AsyncFnOnce(&mut Attributes<'_>) -> Result<(), Status>) -> Outcome {
        let catalogue = Catalogue::complete();
        let target = match self.version.as_str() {
            "" => catalogue.by_group_resource(&self.group, &self.resource),
            version => catalogue.by_gvr(&Gvr::new(self.group.as_str(), version, self.resource.as_str())),
        };
        let target = target.expect("a resource of the table");
        let versions = BuiltIn(target.clone());
        let random = Random::from_seed(1, "admission");
        let mut object = self.object;
        let mut attributes = Attributes {
            operation: self.operation,
            served: target.served(),
            versions: &versions,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name: &self.name,
            object: object.as_mut(),
            old_object: self.old.as_ref(),
            options: &self.options,
            user: &self.user,
            dry_run: self.dry_run,
            now: self.now.parse().expect("a time"),
            deadline: None,
            reinvocation: Reinvocation::default(),
            random: &random,
            lookup: &self.objects,
            quotas: &self.objects,
            warnings: Warnings::default(),
            annotations: Annotations::default(),
            steps: None,
        };
        let outcome = look(&mut attributes).await;
        let warnings = attributes.warnings.take();
        let annotations = attributes.annotations.take();
        Outcome {
            object: object.unwrap_or_default(),
            warnings,
            annotations,
            error: outcome.err(),
            recorded: self.objects.recorded.into_inner(),
        }
    }
}

fn stored(object: Value) -> Arc<Object> {
    Arc::new(Object::from_value(object, REVISION, BTreeMap::new()))
}

fn key_of(group: &str, resource: &str, object: &Value) -> Key {
    let meta = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    owned(ObjectKey::new(group, resource, meta("namespace"), meta("name")))
}
