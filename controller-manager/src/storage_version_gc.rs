//! The garbage collector of StorageVersions removes what API servers that no longer run wrote about the versions that they store.
//!
//! Corresponds to pkg/controller/storageversiongc.

use client::reconcile::Reconciler;
use client::{Action, Client, DeleteOptions, Event, Lister, Plan, ReconcileError};
use component_base::storage_version::{IDENTITY_LABEL, IDENTITY_NAMESPACE, set_common_version};
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::apiserverinternal::v1alpha1::{ServerStorageVersion, StorageVersion};
use proto::kinds::api::coordination::v1::Lease;
use proto::meta::time;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

pub const GATE: &str = "StorageVersionAPI";
const GATES: &[&str] = &["APIServerIdentity", GATE];
/// Namespace of the leases of API servers.
pub const IDENTITIES: &str = IDENTITY_NAMESPACE;

struct Collector {
    storage_versions: Lister<StorageVersion>,
    leases: Lister<Lease>,
}

#[derive(Debug)]
struct Observed {
    storage_version: Arc<StorageVersion>,
    /// Names of the leases of running API servers.
    servers: BTreeSet<String>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    if !setup.has_gates(GATES) || !setup.serves::<StorageVersion>() {
        return Box::pin(async {});
    }
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<StorageVersion>, queue| queue.add(event.object().key()));
    setup.on_event(&queue, {
        let storage_versions: Lister<StorageVersion> = setup.lister();
        move |event: &Event<Lease>, queue| {
            if let Event::Deleted(lease) = event {
                let names =
                    |version: &StorageVersion| records(version).iter().any(|it| it.api_server_id == lease.name());
                storage_versions.filter("", names).iter().for_each(|version| queue.add(version.key()));
            }
        }
    });
    setup.run(queue, 1, Collector { storage_versions: setup.lister(), leases: setup.lister() })
}

fn records(storage_version: &StorageVersion) -> &[ServerStorageVersion] {
    let status = storage_version.status.as_ref();
    status.and_then(|status| status.storage_versions.as_deref()).unwrap_or_default()
}

fn is_identity(lease: &Lease) -> bool {
    let labels = lease.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(IDENTITY_LABEL.0)).is_some_and(|value| value == IDENTITY_LABEL.1)
}

impl Reconciler for Collector {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let storage_version = self.storage_versions.by_key(key)?;
        let leases = self.leases.filter(IDENTITIES, is_identity);
        let servers = leases.iter().map(|lease| lease.name().to_owned()).collect();
        Some(Observed { storage_version, servers })
    }

    /// Asks for the leases that the cache lacks. It may be older than the record of a server that has just started.
    async fn consult(&self, client: &Client, mut observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        for record in records(&observed.storage_version) {
            let server = &record.api_server_id;
            if observed.servers.contains(server) {
                continue;
            }
            match client.api::<Lease>(IDENTITIES).get(server).await {
                Ok(lease) if is_identity(&lease) => {
                    observed.servers.insert(server.clone());
                }
                Ok(_) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(observed))
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        Plan::of(collect(&observed.storage_version, &observed.servers, now))
    }
}

/// Returns the write that removes the records of servers that do not run.
fn collect(stored: &StorageVersion, servers: &BTreeSet<String>, now: Timestamp) -> Option<Action> {
    let records = records(stored);
    let is_running = |record: &&ServerStorageVersion| servers.contains(&record.api_server_id);
    let left: Vec<ServerStorageVersion> = records.iter().filter(is_running).cloned().collect();
    if left.len() == records.len() {
        return None;
    }
    if left.is_empty() {
        let options = DeleteOptions::with_uid(stored.uid());
        return Some(Action::delete::<StorageVersion>("", stored.name(), options));
    }
    let mut object = stored.encode();
    object["status"]["storageVersions"] = json!(left);
    set_common_version(&mut object, &time::format(now));
    Some(Action::UpdateStatus { gvr: StorageVersion::gvr(), namespace: String::new(), object })
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture::at;
    use serde_json::Value;

    #[test]
    fn records_of_servers_that_are_gone_are_removed() {
        let servers = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let collected = |records: &[(&str, &str)]| {
            let record = |(id, version): &(&str, &str)| json!({"apiServerID": id, "encodingVersion": version, "decodableVersions": [version]});
            let records: Vec<Value> = records.iter().map(record).collect();
            let stored = json!({
                "metadata": {"name": "apps.deployments", "uid": "u"}, "spec": {}, "status": {"storageVersions": records},
            });
            collect(&StorageVersion::decode_value(stored).unwrap(), &servers, at(10))
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
            assert_eq!(object["status"].get("commonEncodingVersion").unwrap_or(&Value::Null), &common);
            let condition = &object["status"]["conditions"][0];
            assert_eq!(
                (&condition["type"], &condition["status"]),
                (&json!("AllEncodingVersionsEqual"), &json!(status))
            );
        }
    }
}
