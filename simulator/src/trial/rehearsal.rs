//! What the API server of a trial would refuse, found out by dry runs.

use super::stage::{self, AUTHORITY};
use super::{namespace, priority, setup, with_class};
use crate::in_virtual_time;
use bytes::Bytes;
use client::request::{Call, JSON};
use client::{Client, Error};
use component_base::env::Env;
use component_base::network::Network;
use component_base::options::feature_gates::GateValues;
use http::Method;
use proto::Status;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Returns why the server would refuse each of these pods and nodes; nothing for those that it would take. The error says why it
/// could not be asked.
pub fn refusals(gates: &GateValues, has_gangs: bool, documents: &[Value]) -> Result<Vec<Vec<String>>, String> {
    in_virtual_time(async {
        let env = Env::simulated(1);
        let server = stage::serve(&env, gates, has_gangs)?;
        let Network::InProcess(network) = env.network() else { unreachable!("a simulated Env has no sockets") };
        network.register(AUTHORITY, server.service);
        let admin = stage::connect(&env, "kubernetes-admin", "kubectl");
        let pods = || documents.iter().filter(|document| document["kind"] == "Pod");
        for namespace in pods().map(namespace).collect::<BTreeSet<&str>>() {
            let metadata = json!({"name": namespace});
            make(&admin, "/api/v1/namespaces", json!({"kind": "Namespace", "metadata": metadata})).await?;
            let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
            make(&admin, &accounts, json!({"kind": "ServiceAccount", "metadata": {"name": "default"}})).await?;
        }
        for value in pods().filter_map(priority).filter(|value| !setup::is_of_system(*value)).collect::<BTreeSet<_>>() {
            let metadata = json!({"name": setup::priority_class(value)});
            let class = json!({"kind": "PriorityClass", "metadata": metadata, "value": value});
            make(&admin, "/apis/scheduling.k8s.io/v1/priorityclasses", class).await?;
        }
        let mut found = Vec::new();
        for document in documents {
            let (path, document) = match document["kind"].as_str() {
                Some("Pod") => (format!("/api/v1/namespaces/{}/pods", namespace(document)), with_class(document)),
                _ => ("/api/v1/nodes".to_owned(), document.clone()),
            };
            let refused = create(&admin, &format!("{path}?dryRun=All"), &document).await.err();
            found.push(refused.map(reasons).unwrap_or_default());
        }
        Ok(found)
    })
}

async fn create(admin: &Client, path: &str, document: &Value) -> Result<Bytes, Error> {
    admin.call(&Call::new(Method::POST, path).body(JSON, document.to_string())).await
}

/// Creates what pods refer to. Some of it exists already.
async fn make(admin: &Client, path: &str, document: Value) -> Result<(), String> {
    match create(admin, path, &document).await {
        Err(error) if !error.is_already_exists() => Err(format!("{path}: {error}")),
        _ => Ok(()),
    }
}

/// Returns a line for each mistake, with the path of its field.
fn reasons(error: Error) -> Vec<String> {
    let causes =
        error.status().and_then(|status: &Status| status.details.as_ref()).map(|details| details.causes.as_slice());
    let lines: BTreeSet<String> =
        causes.into_iter().flatten().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    if lines.is_empty() { vec![error.to_string()] } else { lines.into_iter().collect() }
}
