//! ConfigMap `extension-apiserver-authentication`: the authorities and proxies that extension servers should trust.
//!
//! Corresponds to pkg/controlplane/controller/clusterauthenticationtrust.

use access::authn::cluster_authentication_info::ClusterAuthenticationInfo;
use registry::Registry;
use registry::own_write::{change, ensure};
use serde_json::{Map, Value, json};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// Merges this server's settings into the ConfigMap, which is created if there is anything to write.
pub async fn reconcile(registry: &Registry, info: &ClusterAuthenticationInfo) -> registry::Result<()> {
    let Ok((_, row)) = registry.row_of("", "configmaps") else { return Ok(()) };
    let current = row.cacher.get_latest(NAMESPACE, NAME).await?;
    let Some(current) = current else {
        let data = info.merged_into(&Map::new());
        if data.is_empty() {
            return Ok(());
        }
        let object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "data": data,
        });
        return ensure(registry, "", "configmaps", object).await;
    };
    let known = |object: &Value| object["data"].as_object().cloned().unwrap_or_default();
    let data = known(&current.peek());
    if info.merged_into(&data) == data {
        return Ok(());
    }
    change(registry, ("", "configmaps"), (NAMESPACE, NAME), |object| {
        let mut object = object.clone();
        object["data"] = Value::Object(info.merged_into(&known(&object)));
        object
    })
    .await
}
