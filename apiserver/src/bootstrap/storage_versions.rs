//! Reports the versions in which this server stores objects, as StorageVersions, where they are served.
//!
//! Corresponds to k8s.io/apiserver/pkg/storageversion, and to pkg/controlplane/controller/apiserverleasegc.
//!
//! Deviation: a server has its identity lease only where it reports StorageVersions, and the lease is named by the server's
//! address. It reports no custom resources, and serves writes before all versions are reported.

use crate::config::{Config, DEFAULT_SECURE_PORT};
use cacher::lookup::Lookup;
use component_base::storage_version::{GROUP, IDENTITY_LABEL, IDENTITY_NAMESPACE, RESOURCE, set_common_version};
use jiff::Timestamp;
use proto::meta::time;
use proto::resources::{Catalogue, Resource};
use registry::Registry;
use registry::mutation::Edit;
use registry::own_write::{change, ensure, own_mutation};
use request::UserInfo;
use request::options::DeleteOptions;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::sync::Arc;
use strategy::object_meta;

const GATES: [&str; 2] = ["APIServerIdentity", "StorageVersionAPI"];
const LEASES: (&str, &str) = ("coordination.k8s.io", "leases");
const LEASE_DURATION_S: i64 = 3600;
/// The bytes of the hash in the name of a server's lease.
const HASH_BYTES: usize = 13;

/// The identity under which this server reports.
#[derive(Debug)]
pub struct StorageVersions {
    /// Name of the server's lease: `apiserver-…`.
    id: String,
    address: String,
}

impl StorageVersions {
    pub fn new(config: &Config) -> Self {
        let port = config.serving.secure_port.unwrap_or(DEFAULT_SECURE_PORT);
        let address = format!("{}:{port}", config.advertised_ip());
        let mut id = "apiserver-".to_owned();
        for byte in &Sha256::digest(&address)[..HASH_BYTES] {
            write!(id, "{byte:02x}").expect("a text has room");
        }
        Self { id, address }
    }

    /// Renews the server's lease, removes those of servers that have ended, and reports what has changed.
    pub async fn reconcile(&self, registry: &Registry, now: Timestamp) -> registry::Result<()> {
        if !GATES.iter().all(|gate| registry.gates.is_on(gate)) || registry.row_of(GROUP, RESOURCE).is_err() {
            return Ok(());
        }
        self.renew(registry, now).await?;
        remove_expired(registry, now).await?;
        let catalogue = registry.catalogue.load_full();
        let rows = catalogue.rows().iter().filter(|row| row.prefix.is_some() && catalogue.serves(row));
        for row in rows.filter(|row| row.storage_version().schema.is_builtin()) {
            let record = self.record(&catalogue, row);
            report(registry, &name_of(row), &record, &time::format(now)).await?;
        }
        Ok(())
    }

    async fn renew(&self, registry: &Registry, now: Timestamp) -> registry::Result<()> {
        let (_, row) = registry.row_of(LEASES.0, LEASES.1)?;
        let now = format!("{now:.6}");
        if row.cacher.get_latest(IDENTITY_NAMESPACE, &self.id).await?.is_some() {
            let renewed = |lease: &Value| {
                let mut lease = lease.clone();
                lease["spec"]["renewTime"] = json!(now);
                lease
            };
            return change(registry, LEASES, (IDENTITY_NAMESPACE, &self.id), renewed).await;
        }
        let (label, value) = IDENTITY_LABEL;
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": self.id, "namespace": IDENTITY_NAMESPACE, "labels": {label: value}},
            "spec": {"holderIdentity": self.address, "leaseDurationSeconds": LEASE_DURATION_S, "renewTime": now},
        });
        ensure(registry, LEASES.0, LEASES.1, lease).await
    }

    /// Returns what this server reports about a resource.
    fn record(&self, catalogue: &Catalogue, row: &Resource) -> Value {
        let versions = row.served.iter().map(|version| version.api_version());
        let is_served = |version: &&proto::resources::Served| catalogue.by_gvr(&version.gvr()).is_some();
        let served = row.served.iter().filter(is_served).map(|version| version.api_version());
        json!({
            "apiServerID": self.id, "encodingVersion": row.storage_version().api_version(),
            "decodableVersions": versions.collect::<Vec<_>>(), "servedVersions": served.collect::<Vec<_>>(),
        })
    }
}

/// Returns `apps.deployments`, or `core.pods`.
fn name_of(row: &Arc<Resource>) -> String {
    let stored = row.storage_version();
    let group = if stored.group.is_empty() { "core" } else { &stored.group };
    format!("{group}.{}", stored.resource)
}

fn is_expired(lease: &Value, now: Timestamp) -> bool {
    let renewed: Option<Timestamp> = lease["spec"]["renewTime"].as_str().and_then(|time| time.parse().ok());
    let life_s = lease["spec"]["leaseDurationSeconds"].as_i64().unwrap_or(LEASE_DURATION_S);
    renewed.is_none_or(|renewed| renewed.as_second().saturating_add(life_s) < now.as_second())
}

/// Removes the leases of servers that renewed them too long ago.
async fn remove_expired(registry: &Registry, now: Timestamp) -> registry::Result<()> {
    let (target, _) = registry.row_of(LEASES.0, LEASES.1)?;
    let (user, options) = (UserInfo::apiserver(), json!({"kind": "DeleteOptions", "apiVersion": "v1"}));
    for lease in registry.list(LEASES.0, LEASES.1, IDENTITY_NAMESPACE)? {
        let lease = lease.peek();
        let is_identity = lease["metadata"]["labels"][IDENTITY_LABEL.0] == IDENTITY_LABEL.1;
        if is_identity && is_expired(&lease, now) {
            let name = object_meta::text(&lease, "name");
            let mut mutation = own_mutation(&target, &user, &options, IDENTITY_NAMESPACE, name);
            match registry.delete(&mut mutation, &DeleteOptions::default()).await {
                Err(error) if error.is_not_found() => {}
                outcome => {
                    outcome?;
                }
            }
        }
    }
    Ok(())
}

/// Writes this server's record into a StorageVersion, unless it is there.
async fn report(registry: &Registry, name: &str, record: &Value, now: &str) -> registry::Result<()> {
    let (target, row) = registry.row_of(GROUP, RESOURCE)?;
    if let Some(current) = row.cacher.get_latest("", name).await?
        && with_record(&current.peek(), record, now)["status"] == current.peek()["status"]
    {
        return Ok(());
    }
    let object =
        json!({"apiVersion": format!("{GROUP}/v1alpha1"), "kind": "StorageVersion", "metadata": {"name": name}});
    ensure(registry, GROUP, RESOURCE, object).await?;
    let (user, options) = (UserInfo::apiserver(), json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"}));
    let mut mutation = own_mutation(&target, &user, &options, "", name);
    mutation.subresource = "status";
    registry.update(&mut mutation, &Edit(|current: &Value| Ok(with_record(current, record, now)))).await.map(drop)
}

/// Returns the object with the record instead of an earlier one of the same server.
fn with_record(current: &Value, record: &Value, now: &str) -> Value {
    let mut object = current.clone();
    let mut records = object["status"]["storageVersions"].as_array().cloned().unwrap_or_default();
    match records.iter_mut().find(|other| other["apiServerID"] == record["apiServerID"]) {
        Some(own) => own.clone_from(record),
        None => records.push(record.clone()),
    }
    object["status"]["storageVersions"] = json!(records);
    set_common_version(&mut object, now);
    object
}

#[cfg(test)]
mod tests {
    use crate::testing::{Answer, Api};
    use serde_json::json;

    const ROOT: &str = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions";

    #[tokio::test(start_paused = true)]
    async fn a_server_reports_what_it_stores_where_it_is_asked_to() {
        let gate = "--feature-gates=StorageVersionAPI=true";
        let api = Api::with_flags(&[gate, "--runtime-config=internal.apiserver.k8s.io/v1alpha1=true"]).await;
        let path = format!("{ROOT}/autoscaling.horizontalpodautoscalers");
        let is_reported = |answer: &Answer| answer.code == 200 && !answer.body["status"]["conditions"].is_null();
        let status = api.until(&path, is_reported).await.body["status"].clone();
        assert_eq!(status["commonEncodingVersion"], "autoscaling/v2");
        assert_eq!(status["conditions"][0]["reason"], "CommonEncodingVersionSet");
        let record = &status["storageVersions"][0];
        assert_eq!(record["servedVersions"], json!(["autoscaling/v2", "autoscaling/v1"]));
        let lease = format!(
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{}",
            record["apiServerID"].as_str().unwrap()
        );
        assert_eq!(api.get(&lease).await.body["spec"]["leaseDurationSeconds"], 3600);
        let without = Api::with_flags(&["--runtime-config=internal.apiserver.k8s.io/v1alpha1=true"]).await;
        assert_eq!(without.get(ROOT).await.code, 404);
    }
}
