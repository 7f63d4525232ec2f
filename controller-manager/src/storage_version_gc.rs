//! The garbage collector of StorageVersions removes what API servers that no longer run wrote about the versions that they store.
//!
//! The gate StorageVersionAPI is off by default, and this API server does not serve the kind. Corresponds to
//! pkg/controller/storageversiongc.
//!
//! Deviation: the records are compared with the leases of API servers once a minute. Kubernetes watches both.

use client::reconcile::PeriodicReconciler;
use client::{Action, Client, DeleteOptions, Error, ListOptions, Plan};
use controller_base::clock;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use proto::kinds::api::coordination::v1::Lease;
use proto::{Gvr, Kind};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

const GATES: &[&str] = &["APIServerIdentity", "StorageVersionAPI"];
const PERIOD: Duration = Duration::from_secs(60);
/// Selects the leases that API servers hold as long as they run.
const IDENTITIES: &str = "apiserver.kubernetes.io/identity=kube-apiserver";
const AGREED: &str = "AllEncodingVersionsEqual";

struct Collector {
    client: Client,
}

#[derive(Debug, Default)]
struct Observed {
    storage_versions: Vec<Value>,
    /// Names of the leases of running API servers.
    servers: BTreeSet<String>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    if !setup.has_gates(GATES) {
        return Box::pin(async {});
    }
    let collector = Collector { client: setup.client.clone() };
    let running = setup.run_periodically("storage_version_garbage_collector", PERIOD, collector);
    setup.run_where_served(storage_versions(), running)
}

fn storage_versions() -> Gvr {
    Gvr::new("internal.apiserver.k8s.io", "v1alpha1", "storageversions")
}

impl Collector {
    /// Lists the leases last: a server has its lease before it writes.
    async fn read(&self) -> Result<Observed, Error> {
        let listed = self.client.dynamic(&storage_versions(), "").list(&ListOptions::default()).await?;
        let leases = self.client.api::<Lease>("kube-system").list(&ListOptions::labels(IDENTITIES)).await?;
        let servers = leases.items.iter().map(|lease| lease.name().to_owned()).collect();
        Ok(Observed { storage_versions: listed.items, servers })
    }
}

impl PeriodicReconciler for Collector {
    type Observed = Observed;

    async fn observe(&mut self, _now: Timestamp) -> Observed {
        let observed = self.read().await;
        observed.inspect_err(|error| tracing::warn!(%error, "unable to list StorageVersions")).unwrap_or_default()
    }

    fn plan(&mut self, observed: &Observed, now: Timestamp) -> Vec<Plan> {
        let plans = observed.storage_versions.iter().filter_map(|one| collect(one, &observed.servers, now));
        plans.map(|action| Plan::of([action])).collect()
    }
}

/// Returns the write that removes the records of servers that do not run.
fn collect(stored: &Value, servers: &BTreeSet<String>, now: Timestamp) -> Option<Action> {
    let records = stored["status"]["storageVersions"].as_array()?;
    let is_running = |record: &&Value| record["apiServerID"].as_str().is_some_and(|id| servers.contains(id));
    let left: Vec<Value> = records.iter().filter(is_running).cloned().collect();
    if left.len() == records.len() {
        return None;
    }
    let (gvr, namespace) = (storage_versions(), String::new());
    if left.is_empty() {
        let text = |field: &str| stored["metadata"][field].as_str().unwrap_or_default().to_owned();
        return Some(Action::Delete {
            gvr,
            namespace,
            name: text("name"),
            options: DeleteOptions::with_uid(text("uid")),
        });
    }
    let mut object = stored.clone();
    object["status"]["storageVersions"] = json!(left);
    set_common_version(&mut object, now);
    Some(Action::UpdateStatus { gvr, namespace, object })
}

/// Writes the version that all servers store, if they agree, and the condition that says whether they do.
fn set_common_version(object: &mut Value, now: Timestamp) {
    let records = object["status"]["storageVersions"].as_array().cloned().unwrap_or_default();
    let first = records.first().map_or(Value::Null, |record| record["encodingVersion"].clone());
    let is_agreed = records.iter().all(|record| record["encodingVersion"] == first);
    let (status, reason, message) = if is_agreed {
        ("True", "CommonEncodingVersionSet", "Common encoding version set")
    } else {
        ("False", "CommonEncodingVersionUnset", "Common encoding version unset")
    };
    object["status"]["commonEncodingVersion"] = if is_agreed { first } else { Value::Null };
    let mut condition = json!({
        "type": AGREED, "status": status, "observedGeneration": object["metadata"]["generation"], "reason": reason,
        "message": message, "lastTransitionTime": clock::stamp(now)
    });
    let mut conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    if let Some(before) = conditions.iter().find(|other| other["type"] == AGREED && other["status"] == status) {
        condition["lastTransitionTime"] = before["lastTransitionTime"].clone();
    }
    conditions.retain(|other| other["type"] != AGREED);
    conditions.push(condition);
    object["status"]["conditions"] = json!(conditions);
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture::at;

    #[test]
    fn records_of_servers_that_are_gone_are_removed() {
        let servers = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let collected = |records: &[(&str, &str)]| {
            let record = |(id, version): &(&str, &str)| json!({"apiServerID": id, "encodingVersion": version});
            let records: Vec<Value> = records.iter().map(record).collect();
            let stored =
                json!({"metadata": {"name": "apps.deployments", "uid": "u"}, "status": {"storageVersions": records}});
            collect(&stored, &servers, at(10))
        };
        assert_eq!(collected(&[]), None);
        assert_eq!(collected(&[("a", "v1"), ("b", "v2")]), None);
        let deleted = collected(&[("gone", "v1")]).map(|action| action.to_string());
        assert_eq!(deleted.as_deref(), Some("delete storageversions.internal.apiserver.k8s.io apps.deployments uid=u"));
        for (records, common, status) in [
            ([("a", "v1"), ("b", "v1"), ("gone", "v2")], json!("v1"), "True"),
            ([("a", "v1"), ("b", "v2"), ("gone", "v1")], Value::Null, "False"),
        ] {
            let Some(Action::UpdateStatus { object, .. }) = collected(&records) else { panic!("{records:?}") };
            assert_eq!(object["status"]["storageVersions"].as_array().map(Vec::len), Some(2));
            assert_eq!(object["status"]["commonEncodingVersion"], common);
            let condition = &object["status"]["conditions"][0];
            assert_eq!((&condition["type"], &condition["status"]), (&json!(AGREED), &json!(status)));
        }
    }
}
