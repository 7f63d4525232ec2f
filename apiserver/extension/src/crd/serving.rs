//! Follows the definitions in the store, and serves their custom resources without a restart.
//!
//! One pass reads all definitions. It starts their rows, whose caches read the store first. Then it swaps the catalogue,
//! writes the status of each definition, and removes the objects of those that are deleted. Every API server decides the
//! same from the same definitions, so it does not matter which of them writes.
//! Corresponds to the crdHandler and the controllers of k8s.io/apiextensions-apiserver.

use super::conditions::{self, ESTABLISHED, TERMINATING};
use super::definition::{Definition, GROUP, RESOURCE};
use super::webhook_converter::WebhookConverter;
use super::{cleanup, row};
use cacher::Freshness;
use proto::resources::{Catalogue, Resource};
use registry::Registry;
use registry::converter::Recent;
use registry::mutation::Edit;
use registry::own_write::own_mutation;
use registry::post_start::{Hook, Milestone};
use registry::row::Row;
use registry::upkeep::Upkeep;
use remote::clients::Clients;
use request::UserInfo;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use strategy::object_meta;

/// Pause before a failed pass is repeated.
const RETRY_PERIOD: Duration = Duration::from_secs(1);

/// A definition whose custom resources are served.
struct ServedDefinition {
    /// The spec that the row was made from.
    spec: Value,
    accepted_names: Value,
    row: Arc<Row>,
}

struct Serving {
    registry: Arc<Registry>,
    clients: Arc<Clients>,
    /// The built-in resources that are served.
    base: Arc<Catalogue>,
    /// By the name of the definition.
    served: BTreeMap<String, ServedDefinition>,
}

/// Serves custom resources until shutdown.
pub async fn run(upkeep: Upkeep, clients: Arc<Clients>, base: Arc<Catalogue>) {
    let registry = upkeep.registry.clone();
    // Without the API of definitions there are none.
    let Ok((_, definitions)) = registry.row_of(GROUP, RESOURCE) else {
        upkeep.hooks.reach(Milestone::CustomResourcesServed);
        for hook in [Hook::ApiextensionsInformers, Hook::CrdInformerSynced, Hook::ApiextensionsControllers] {
            upkeep.hooks.finished(hook);
        }
        return;
    };
    upkeep.hooks.finished(Hook::ApiextensionsInformers);
    let mut serving = Serving { registry: registry.clone(), clients, base, served: BTreeMap::new() };
    let follow = async {
        let mut freshness = Freshness::Latest;
        loop {
            let Ok(snapshot) = definitions.cacher.read(freshness).await else {
                registry.env.sleep(RETRY_PERIOD).await;
                continue;
            };
            freshness = Freshness::Any;
            upkeep.hooks.finished(Hook::CrdInformerSynced);
            let all: Vec<Arc<Value>> = snapshot.iter().map(|(_, object)| object.value()).collect();
            let is_done = serving.pass(all).await;
            upkeep.hooks.reach(Milestone::CustomResourcesServed);
            upkeep.hooks.finished(Hook::ApiextensionsControllers);
            let changed = definitions.cacher.changed(&snapshot);
            if is_done {
                changed.await;
            } else {
                // The next pass starts at a change, or after the pause.
                let _ = registry.env.timeout(RETRY_PERIOD, changed).await;
            }
        }
    };
    upkeep.until_shutdown(follow).await;
}

impl Serving {
    /// Does what the definitions ask for. Returns false when some of it is left to the next pass.
    async fn pass(&mut self, mut all: Vec<Arc<Value>>) -> bool {
        // The oldest definition gets a disputed name. Every server sorts them alike.
        all.sort_by_key(|definition| {
            let definition = Definition(definition);
            let created = definition.0["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
            (created.to_owned(), definition.name().to_owned())
        });
        let decided = self.decide(&all);
        self.serve(&decided).await;
        let mut is_done = true;
        for (before, after) in all.iter().zip(&decided) {
            if before.get("status") == after.get("status") {
                continue;
            }
            if let Err(status) = self.write_status(&Definition(after), &decided).await {
                tracing::debug!(definition = Definition(after).name(), error = %status, "the status is not written");
                is_done = false;
            }
        }
        for definition in decided.iter().map(Definition) {
            if definition.is_deleting() && definition.has_cleanup_finalizer() {
                let row = self.served.get(definition.name()).map(|served| served.row.clone());
                is_done &= cleanup::step(&self.registry, &definition, row).await.unwrap_or_else(|status| {
                    tracing::debug!(definition = definition.name(), error = %status, "the objects are not gone yet");
                    false
                });
            }
        }
        is_done
    }

    /// Returns the definitions with the status that they should have.
    fn decide(&self, all: &[Arc<Value>]) -> Vec<Value> {
        let now = object_meta::time(self.registry.env.wall());
        let mut decided: Vec<Value> = all.iter().map(|definition| Value::clone(definition)).collect();
        for index in 0..decided.len() {
            let status = {
                let others: Vec<Definition<'_>> = decided.iter().map(Definition).collect();
                conditions::decided(&others[index], &others, &now)
            };
            decided[index]["status"] = status;
        }
        decided
    }

    /// Starts the rows of new definitions, and stops those of definitions that are gone. The catalogue is swapped after the
    /// new caches have read the store. Requests that began earlier keep the rows that they use.
    async fn serve(&mut self, decided: &[Value]) {
        let mut ended: Vec<Arc<Row>> = Vec::new();
        let mut is_changed = false;
        let mut established: BTreeMap<String, ServedDefinition> = BTreeMap::new();
        for definition in decided.iter().map(Definition).filter(|definition| definition.is_true(ESTABLISHED)) {
            let known = self.served.remove(definition.name());
            if let Some(known) = known {
                if known.is_current(&definition) {
                    established.insert(definition.name().to_owned(), known);
                    continue;
                }
                let (next, is_replaced) = self.replacement(&definition, &known).await;
                if is_replaced {
                    ended.push(known.row);
                }
                established.extend(next.map(|next| (definition.name().to_owned(), next)));
            } else {
                let next = self.start(&definition).await;
                established.extend(next.map(|next| (definition.name().to_owned(), next)));
            }
            is_changed = true;
        }
        let gone = std::mem::replace(&mut self.served, established);
        is_changed |= !gone.is_empty();
        if !is_changed {
            return;
        }
        for served in self.served.values() {
            self.registry.add_row(served.row.clone());
        }
        let rows: Vec<Arc<Resource>> = self.served.values().map(|served| served.row.resource.clone()).collect();
        self.registry.catalogue.store(Arc::new(self.base.with(&rows)));
        for served in gone.into_values() {
            self.registry.remove_row(&served.row.prefix);
            ended.push(served.row);
        }
        ended.iter().for_each(|row| row.cacher.stop());
    }

    /// Starts the row of a definition, and waits until its cache has read the store.
    async fn start(&self, definition: &Definition<'_>) -> Option<ServedDefinition> {
        let resource = Arc::new(row::of(definition, definition.accepted_names())?);
        let strategy = super::strategies::of(&resource);
        let row = self.registry.start_row(resource, strategy)?;
        let converter = WebhookConverter::of(definition, &self.registry.env, &self.clients);
        let row = Row { converter, ..row };
        if !row.cacher.ready().await {
            return None;
        }
        Some(ServedDefinition::of(definition, Arc::new(row)))
    }

    /// Returns what replaces a served definition that has changed, and whether the old cache ends. The cache is kept while
    /// the spec and the accepted names are the same, because its objects cannot differ.
    async fn replacement(
        &self,
        definition: &Definition<'_>,
        known: &ServedDefinition,
    ) -> (Option<ServedDefinition>, bool) {
        if known.spec != definition.0["spec"] || known.accepted_names != *definition.accepted_names().0 {
            return (self.start(definition).await, true);
        }
        let resource = row::of(definition, definition.accepted_names()).map(Arc::new);
        let next = resource.map(|resource| {
            let strategy = super::strategies::of(&resource);
            let Row { cacher, converter, event_ttl, prefix, transformer, .. } = &*known.row;
            let row = Row {
                resource,
                strategy,
                cacher: cacher.clone(),
                converter: converter.clone(),
                recent: Recent::default(),
                event_ttl: *event_ttl,
                prefix: prefix.clone(),
                transformer: transformer.clone(),
            };
            ServedDefinition::of(definition, Arc::new(row))
        });
        (next, false)
    }

    async fn write_status(&self, definition: &Definition<'_>, decided: &[Value]) -> registry::Result<()> {
        let (target, _) = self.registry.row_of(GROUP, RESOURCE)?;
        let user = UserInfo::apiserver();
        let options = json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"});
        let mut mutation = own_mutation(&target, &user, &options, "", definition.name());
        mutation.subresource = "status";
        let now = object_meta::time(self.registry.env.wall());
        let edit = Edit(|current: &Value| {
            let others: Vec<Definition<'_>> = decided.iter().map(Definition).collect();
            let mut object = current.clone();
            object["status"] = conditions::decided(&Definition(current), &others, &now);
            Ok(object)
        });
        self.registry.update(&mut mutation, &edit).await.map(|_| ())
    }
}

impl ServedDefinition {
    fn of(definition: &Definition<'_>, row: Arc<Row>) -> Self {
        let spec = definition.0["spec"].clone();
        Self { spec, accepted_names: definition.accepted_names().0.clone(), row }
    }

    /// Tells whether the row still is what the definition asks for.
    fn is_current(&self, definition: &Definition<'_>) -> bool {
        let is_terminating = definition.is_deleting() || definition.is_true(TERMINATING);
        self.spec == definition.0["spec"]
            && self.accepted_names == *definition.accepted_names().0
            && self.row.resource.is_terminating == is_terminating
    }
}
