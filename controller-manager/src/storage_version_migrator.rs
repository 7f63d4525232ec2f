//! The storage version migrator writes every object of a resource again, so that all are stored in the present version.
//!
//! ```text
//!   status.resourceVersion is empty    record the version of the collection
//!   it is recorded                     condition Running, an empty apply of every object, condition Succeeded or Failed
//! ```
//!
//! The gate StorageVersionMigrator is off by default, and this API server does not serve the kind. Corresponds to
//! pkg/controller/storageversionmigrator.
//!
//! Deviation: migrations are looked at every ten seconds, one after the other. Kubernetes watches them.

use client::{Client, Error, ListOptions, Patch, PatchOptions};
use controller_base::clock;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use controller_base::discovery::{ApiResource, Discovered, discover};
use jiff::Timestamp;
use proto::Gvr;
use serde_json::{Value, json};
use std::time::Duration;

const GATE: &str = "StorageVersionMigrator";
const MANAGER: &str = "storage-version-migrator-controller";
const PERIOD: Duration = Duration::from_secs(10);
/// How long a resource may be missing: discovery may not show a new custom resource yet.
const PATIENCE_S: i64 = 60;

struct Migrator {
    /// The manager's own identity, which reads.
    reader: Client,
    writer: Client,
}

/// What a migration needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Finished,
    /// The resource is not served yet.
    Wait,
    Fail(&'static str),
    RecordVersion,
    Migrate,
}

/// A condition of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Running,
    Succeeded,
    Failed,
}

impl Outcome {
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Running => ("Running", "StorageVersionMigrationInProgress"),
            Self::Succeeded => ("Succeeded", "StorageVersionMigrationSucceeded"),
            Self::Failed => ("Failed", "StorageVersionMigrationFailed"),
        }
    }
}

pub fn start(setup: &Setup<'_>) -> Running {
    if !setup.has_gates(&[GATE]) {
        return Box::pin(async {});
    }
    let migrator = Migrator { reader: setup.client.clone(), writer: setup.actor().client };
    setup.run_where_served(migrations(), Box::pin(migrator.run()))
}

fn migrations() -> Gvr {
    Gvr::new("storagemigration.k8s.io", "v1beta1", "storageversionmigrations")
}

impl Migrator {
    /// Looks at every migration once in a period. Each write depends on the answers before it, so there is no plan.
    async fn run(self) {
        let env = self.reader.env().clone();
        loop {
            if let Err(error) = self.round(env.wall()).await {
                tracing::warn!(%error, "storage versions are not migrated");
            }
            tokio::select! {
                biased;
                () = env.shutdown().cancelled() => return,
                () = env.sleep(PERIOD) => {}
            }
        }
    }

    async fn round(&self, now: Timestamp) -> Result<(), Error> {
        let listed = self.reader.dynamic(&migrations(), "").list(&ListOptions::default()).await?;
        let open: Vec<&Value> = listed.items.iter().filter(|migration| !is_finished(migration)).collect();
        if open.is_empty() {
            return Ok(());
        }
        let discovered = discover(&self.reader).await?;
        for migration in open {
            let resource = resource_of(migration, &discovered);
            if let Err(error) = self.follow(migration, resource, now).await {
                tracing::warn!(%error, migration = %migration["metadata"]["name"], "trying again in the next round");
            }
        }
        Ok(())
    }

    async fn follow(&self, migration: &Value, resource: Option<&ApiResource>, now: Timestamp) -> Result<(), Error> {
        match (next_step(migration, resource.is_some(), now), resource) {
            (Step::Fail(message), _) => {
                self.write(&with_condition(migration, Outcome::Failed, message, now)).await.map(drop)
            }
            (Step::RecordVersion, Some(resource)) => {
                let one = ListOptions { limit: 1, ..ListOptions::default() };
                let version = self.reader.dynamic(&resource.gvr, "").list(&one).await?.metadata.resource_version;
                let mut recorded = migration.clone();
                recorded["status"]["resourceVersion"] = json!(version);
                self.write(&recorded).await.map(drop)
            }
            (Step::Migrate, Some(resource)) => self.migrate(migration, resource, now).await,
            (Step::Finished | Step::Wait | Step::RecordVersion | Step::Migrate, _) => Ok(()),
        }
    }

    async fn migrate(&self, migration: &Value, resource: &ApiResource, now: Timestamp) -> Result<(), Error> {
        let running = self.write(&with_condition(migration, Outcome::Running, "", now)).await?;
        let objects = self.reader.dynamic(&resource.gvr, "").list(&ListOptions::default()).await?.items;
        let (mut outcome, mut message) = (Outcome::Succeeded, "");
        for object in &objects {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let api = self.writer.dynamic(&resource.gvr, text("namespace"));
            match api.patch(text("name"), &rewrite(resource, object), &PatchOptions::default()).await {
                Ok(_) => {}
                // Written, deleted or made anew since the list: there is nothing left to migrate.
                Err(error) if error.is_conflict() || error.is_not_found() => {}
                Err(error) => {
                    tracing::warn!(%error, resource = %resource.gvr, "failed to migrate the resource");
                    (outcome, message) = (Outcome::Failed, "migration encountered unhandled error");
                    break;
                }
            }
        }
        self.write(&with_condition(&running, outcome, message, now)).await.map(drop)
    }

    async fn write(&self, migration: &Value) -> Result<Value, Error> {
        self.writer.dynamic(&migrations(), "").update_status(migration).await
    }
}

fn resource_of<'a>(migration: &Value, discovered: &'a Discovered) -> Option<&'a ApiResource> {
    let resource = &migration["spec"]["resource"];
    let text = |field: &str| resource[field].as_str().unwrap_or_default();
    discovered.preferred().find(|known| known.gvr.group == text("group") && known.gvr.resource == text("resource"))
}

fn is_finished(migration: &Value) -> bool {
    let conditions = migration["status"]["conditions"].as_array().into_iter().flatten();
    let ends = [Outcome::Succeeded, Outcome::Failed].map(|outcome| outcome.words().0);
    conditions.into_iter().any(|it| it["status"] == "True" && ends.iter().any(|end| it["type"] == *end))
}

fn next_step(migration: &Value, is_served: bool, now: Timestamp) -> Step {
    let created: Option<Timestamp> =
        migration["metadata"]["creationTimestamp"].as_str().and_then(|time| time.parse().ok());
    if is_finished(migration) {
        Step::Finished
    } else if !is_served {
        let is_new = created.is_some_and(|created| clock::after(created, PATIENCE_S) > now);
        if is_new { Step::Wait } else { Step::Fail("resource not found") }
    } else if migration["status"]["resourceVersion"].as_str().unwrap_or_default().is_empty() {
        Step::RecordVersion
    } else {
        Step::Migrate
    }
}

/// Sets a condition. A migration that has ended no longer runs.
fn with_condition(migration: &Value, outcome: Outcome, message: &str, now: Timestamp) -> Value {
    let (type_, reason) = outcome.words();
    let mut conditions = migration["status"]["conditions"].as_array().cloned().unwrap_or_default();
    if conditions.iter().any(|other| other["type"] == type_ && other["status"] == "True") {
        return migration.clone();
    }
    conditions.retain(|other| other["type"] != type_);
    let running = Outcome::Running.words().0;
    for other in conditions.iter_mut().filter(|other| other["type"] == running) {
        other["status"] = json!("False");
        other["lastTransitionTime"] = json!(clock::stamp(now));
    }
    conditions.push(json!({
        "type": type_, "status": "True", "reason": reason, "message": message, "lastTransitionTime": clock::stamp(now)
    }));
    let mut changed = migration.clone();
    changed["status"]["conditions"] = json!(conditions);
    changed
}

/// Returns an apply of nothing, which stores the object again if its stored form differs. It fails for an object that was
/// written or made anew in the meantime.
fn rewrite(resource: &ApiResource, object: &Value) -> Patch {
    let metadata = &object["metadata"];
    let value = json!({
        "apiVersion": resource.gvk.api_version(), "kind": resource.gvk.kind,
        "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
    });
    Patch::Apply { value, manager: MANAGER.to_owned(), force: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client_testing::{FakeServer, Fault};
    use component_base::env::Env;
    use proto::{Gvk, Status};

    const KEY: &str = "storageversionmigrations.storagemigration.k8s.io";

    fn migration(status: Value) -> Value {
        json!({
            "metadata": {"name": "m", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"resource": {"group": "", "resource": "configmaps"}}, "status": status,
        })
    }

    #[test]
    fn a_migration_waits_for_its_resource_and_its_version() {
        let step = |status: Value, is_served: bool, now: &str| {
            next_step(&migration(status), is_served, format!("2026-01-01T00:{now}Z").parse().unwrap())
        };
        assert_eq!(step(json!({}), false, "00:30"), Step::Wait);
        assert_eq!(step(json!({}), false, "01:00"), Step::Fail("resource not found"));
        assert_eq!(step(json!({}), true, "01:00"), Step::RecordVersion);
        assert_eq!(step(json!({"resourceVersion": "7"}), true, "01:00"), Step::Migrate);
        for end in ["Succeeded", "Failed"] {
            let ended = json!({"conditions": [{"type": end, "status": "True"}]});
            assert_eq!(step(ended, true, "01:00"), Step::Finished, "{end}");
        }
    }

    /// Migrates two ConfigMaps, the second of which is answered as told. Returns the conditions afterwards.
    async fn conditions_after(second: Option<Status>) -> String {
        let env = Env::simulated(1);
        let server = FakeServer::new(&env);
        let client = Client::from_service(&env, server.service(), "test");
        for name in ["a", "b"] {
            server.put("configmaps", json!({"metadata": {"name": name, "namespace": "shop", "uid": name}}));
        }
        server.put(KEY, migration(json!({})));
        let migrator = Migrator { reader: client.clone(), writer: client };
        let resource = ApiResource {
            gvr: Gvr::new("", "v1", "configmaps"),
            gvk: Gvk::new("", "v1", "ConfigMap"),
            is_namespaced: true,
            verbs: Vec::new(),
            short_names: Vec::new(),
            subresources: Vec::new(),
            is_preferred: true,
        };
        if let Some(answer) = second {
            server.fault(Fault { path_contains: "configmaps/b", answer, retry_after_s: None });
        }
        for _ in 0..2 {
            migrator.follow(&server.get(KEY, "m").unwrap(), Some(&resource), env.wall()).await.unwrap();
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
