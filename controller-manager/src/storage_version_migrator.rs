//! The storage version migrator writes every object of a resource again, so that all are stored in the present version.
//!
//! ```text
//!   status.resourceVersion is empty    record the version of the collection
//!   it is recorded                     condition Running
//!   condition Running                  an empty apply of every object, then condition Succeeded or Failed
//! ```
//!
//! Corresponds to pkg/controller/storageversionmigrator.

use client::reconcile::{Actor, Reconciler};
use client::{Action, ApplyError, Client, Event, ListOptions, Lister, Patch, Plan, ReconcileError};
use controller_base::clock;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use controller_base::discovery::{ApiResource, discover};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::storagemigration::v1beta1::{StorageVersionMigration, StorageVersionMigrationStatus};
use proto::kinds::metav1::Condition;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

pub const GATE: &str = "StorageVersionMigrator";
const MANAGER: &str = "storage-version-migrator-controller";
/// How long a resource may be missing: discovery may not show a new custom resource yet.
const PATIENCE_S: i64 = 60;
/// Time until a resource that is missing is looked for again.
const RETRY: Duration = Duration::from_secs(10);
const RUNNING: Outcome = Outcome("Running", "StorageVersionMigrationInProgress");
const SUCCEEDED: Outcome = Outcome("Succeeded", "StorageVersionMigrationSucceeded");
const FAILED: Outcome = Outcome("Failed", "StorageVersionMigrationFailed");

struct Migrator {
    migrations: Lister<StorageVersionMigration>,
    /// The manager's own identity, which reads.
    reader: Client,
}

/// A condition of a migration: its type and its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outcome(&'static str, &'static str);

struct Observed {
    migration: Arc<StorageVersionMigration>,
    found: Found,
}

/// What the server says about the resource of a migration.
#[derive(Debug)]
enum Found {
    /// The server was not asked.
    Unknown,
    NotServed,
    /// The version of the collection.
    Version(String),
    /// The objects to write again, when the migration runs.
    Objects(ApiResource, Vec<Value>),
}

pub fn start(setup: &Setup<'_>) -> Running {
    if !setup.has_gates(&[GATE]) || !setup.serves::<StorageVersionMigration>() {
        return Box::pin(async {});
    }
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<StorageVersionMigration>, queue| queue.add(event.object().key()));
    setup.run(queue, 1, Migrator { migrations: setup.lister(), reader: setup.client.clone() })
}

impl Reconciler for Migrator {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let migration = self.migrations.by_key(key)?;
        let is_finished = has(&migration, SUCCEEDED) || has(&migration, FAILED);
        (!is_finished).then_some(Observed { migration, found: Found::Unknown })
    }

    async fn consult(&self, _client: &Client, observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        let migration = observed.migration;
        let resource = &migration.spec.clone().unwrap_or_default().resource;
        let discovered = discover(&self.reader).await?;
        let mut known = discovered.preferred();
        let served = known.find(|it| it.gvr.group == resource.group && it.gvr.resource == resource.resource);
        let found = match served {
            None => Found::NotServed,
            Some(resource) if has(&migration, RUNNING) => {
                let listed = self.reader.dynamic(&resource.gvr, "").list(&ListOptions::default()).await?;
                Found::Objects(resource.clone(), listed.items)
            }
            Some(resource) => {
                let one = ListOptions { limit: 1, ..ListOptions::default() };
                Found::Version(self.reader.dynamic(&resource.gvr, "").list(&one).await?.metadata.resource_version)
            }
        };
        Ok(Some(Observed { migration, found }))
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        plan(&observed.migration, &observed.found, now)
    }

    /// Goes on after an object that was written, deleted or made anew since the list: there is nothing left to migrate.
    async fn apply(&self, actor: &Actor, _key: &str, _observed: &Observed, plan: &Plan) -> Result<(), ApplyError> {
        for action in &plan.actions {
            let one = Plan::of([action.clone()]);
            if let Err(error) = client::apply(&actor.client, &actor.recorder, &one).await {
                let is_settled = error.cause.is_conflict() || error.cause.is_not_found();
                if !is_settled || !matches!(action, Action::Patch { .. }) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn recover(&self, observed: &Observed, error: &ApplyError, now: Timestamp) -> Option<Plan> {
        let Action::Patch { gvr, .. } = &error.failed else { return None };
        tracing::warn!(%error, resource = %gvr, "failed to migrate the resource");
        let failed = with_condition(&observed.migration, FAILED, "migration encountered unhandled error", now);
        Some(Plan::of([Action::update_status(&failed)]))
    }
}

fn plan(migration: &StorageVersionMigration, found: &Found, now: Timestamp) -> Plan {
    let with = |outcome, message: &str| Action::update_status(&with_condition(migration, outcome, message, now));
    let recorded = migration.status.as_ref().and_then(|status| status.resource_version.as_deref());
    match found {
        Found::Unknown => Plan::default(),
        Found::NotServed => {
            let created = migration.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
            let left = clock::until(clock::after(created, PATIENCE_S), now);
            match left.is_zero() {
                true => Plan::of([with(FAILED, "resource not found")]),
                false => Plan { requeue_after: Some(left.min(RETRY)), ..Plan::default() },
            }
        }
        Found::Version(version) if recorded.unwrap_or_default().is_empty() => {
            let mut changed = migration.clone();
            changed.status.get_or_insert_default().resource_version = Some(version.clone());
            Plan::of([Action::update_status(&changed)])
        }
        Found::Version(_) => Plan::of([with(RUNNING, "")]),
        Found::Objects(resource, objects) => {
            let rewrites = objects.iter().map(|object| rewrite(resource, object));
            Plan::of(rewrites.chain([with(SUCCEEDED, "")]))
        }
    }
}

fn has(migration: &StorageVersionMigration, Outcome(kind, _): Outcome) -> bool {
    let status = migration.status.as_ref();
    let mut conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    conditions.any(|condition| condition.type_ == kind && condition.status == "True")
}

/// Sets a condition. A migration that has ended no longer runs.
fn with_condition(
    migration: &StorageVersionMigration,
    Outcome(kind, reason): Outcome,
    message: &str,
    now: Timestamp,
) -> StorageVersionMigration {
    let mut changed = migration.clone();
    let status: &mut StorageVersionMigrationStatus = changed.status.get_or_insert_default();
    let conditions = status.conditions.get_or_insert_default();
    conditions.retain(|other| other.type_ != kind);
    for other in conditions.iter_mut().filter(|other| other.type_ == RUNNING.0) {
        other.status = "False".to_owned();
        other.last_transition_time = clock::stamp(now);
    }
    conditions.push(Condition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: clock::stamp(now),
        observed_generation: None,
    });
    changed
}

/// Returns an apply of nothing, which stores the object again if its stored form differs. It fails for an object that was
/// written or made anew in the meantime.
fn rewrite(resource: &ApiResource, object: &Value) -> Action {
    let metadata = &object["metadata"];
    let value = json!({
        "apiVersion": resource.gvk.api_version(), "kind": resource.gvk.kind,
        "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
    });
    let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
    Action::Patch {
        gvr: resource.gvr.clone(),
        namespace: text("namespace"),
        name: text("name"),
        subresource: None,
        patch: Patch::Apply { value, manager: MANAGER.to_owned(), force: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client_testing::{FakeServer, Fault};
    use component_base::env::Env;
    use proto::{Gvk, Gvr, Status};

    const KEY: &str = "storageversionmigrations.storagemigration.k8s.io";

    fn migration(status: Value) -> Value {
        json!({
            "metadata": {"name": "m", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"resource": {"group": "", "resource": "configmaps"}}, "status": status,
        })
    }

    fn config_maps() -> ApiResource {
        ApiResource {
            gvr: Gvr::new("", "v1", "configmaps"),
            gvk: Gvk::new("", "v1", "ConfigMap"),
            is_namespaced: true,
            verbs: Vec::new(),
            short_names: Vec::new(),
            subresources: Vec::new(),
            is_preferred: true,
        }
    }

    fn typed(status: Value) -> StorageVersionMigration {
        StorageVersionMigration::decode_value(migration(status)).unwrap()
    }

    #[test]
    fn a_migration_waits_for_its_resource_and_its_version() {
        let planned = |status: Value, found: Found, now: &str| {
            plan(&typed(status), &found, format!("2026-01-01T00:{now}Z").parse().unwrap()).to_string()
        };
        let version = || Found::Version("7".to_owned());
        assert_eq!(planned(json!({}), Found::NotServed, "00:30"), "look again after 10s\n");
        assert_eq!(planned(json!({}), Found::NotServed, "00:55"), "look again after 5s\n");
        let failed = planned(json!({}), Found::NotServed, "01:00");
        assert!(failed.contains("\"type\":\"Failed\"") && failed.contains("resource not found"), "{failed}");
        let update = format!("update {KEY}/status m");
        assert_eq!(planned(json!({}), version(), "00:01"), format!("{update} {{\"resourceVersion\":\"7\"}}\n"));
        let running = planned(json!({"resourceVersion": "6"}), version(), "00:01");
        assert!(running.starts_with(&update) && running.contains("\"type\":\"Running\""), "{running}");
    }

    /// Migrates two ConfigMaps, the second of which is answered as told. Returns the conditions afterwards.
    async fn conditions_after(second: Option<Status>) -> String {
        let env = Env::simulated(1);
        let server = FakeServer::new(&env);
        let client = Client::from_service(&env, server.service(), "test");
        let objects = ["a", "b"].map(|name| json!({"metadata": {"name": name, "namespace": "shop", "uid": name}}));
        objects.iter().for_each(|object| server.put("configmaps", object.clone()));
        server.put(KEY, migration(json!({})));
        let actor = Actor::new(&client, "test");
        let migrator = Migrator { migrations: Lister::of([]), reader: client };
        if let Some(answer) = second {
            server.fault(Fault { path_contains: "configmaps/b", answer, retry_after_s: None });
        }
        let listed = || Found::Objects(config_maps(), objects.to_vec());
        for found in [Found::Version("7".to_owned()), Found::Version("7".to_owned()), listed()] {
            let now = StorageVersionMigration::decode_value(server.get(KEY, "m").unwrap()).unwrap();
            let observed = Observed { migration: Arc::new(now), found };
            let plan = migrator.plan(&observed, env.wall());
            if let Err(error) = migrator.apply(&actor, "m", &observed, &plan).await {
                let plan =
                    migrator.recover(&observed, &error, env.wall()).expect("a failed rewrite ends the migration");
                migrator.apply(&actor, "m", &observed, &plan).await.unwrap();
            }
        }
        assert_eq!(server.count("PATCH /api/v1/namespaces/shop/configmaps/"), 2);
        let status = server.get(KEY, "m").unwrap()["status"].clone();
        let conditions = status["conditions"].as_array().unwrap().iter();
        let texts = conditions.map(|it| format!("{}={} {}", it["type"], it["status"], it["message"]));
        texts.collect::<Vec<_>>().join(", ").replace('"', "")
    }

    #[tokio::test(start_paused = true)]
    async fn every_object_is_written_again() {
        assert_eq!(conditions_after(None).await, "Running=False , Succeeded=True ");
        let conflict = Status::modified("", "configmaps", "b");
        assert_eq!(conditions_after(Some(conflict)).await, "Running=False , Succeeded=True ");
        let refused = Status::forbidden("", "configmaps", "b", "no");
        assert_eq!(
            conditions_after(Some(refused)).await,
            "Running=False , Failed=True migration encountered unhandled error"
        );
    }
}
