//! Computes the usage of objects, from caches or from lists of the server.

use super::ledger::{Id, ObjectUsage};
use client::{Client, Error, ListOptions};
use controller_base::discovery::ApiResource;
use proto::fields::text;
use proto::kinds::metav1::ObjectMeta;
use proto::quota::{Amounts, usage};
use serde_json::Value;

/// Returns true if the usage depends on the content of the objects. For all other resources only their number counts.
pub fn depends_on_content(group: &str, resource: &str) -> bool {
    group.is_empty() && matches!(resource, "pods" | "services" | "persistentvolumeclaims")
}

/// Returns the usage of an object. `object` may be null if only the number counts.
pub fn object_usage(resource: &ApiResource, uid: &str, object: Value) -> ObjectUsage {
    let (group, name) = (resource.gvr.group.as_str(), resource.gvr.resource.as_str());
    let amounts = usage(group, name, &object);
    let is_pod = group.is_empty() && name == "pods";
    ObjectUsage { uid: uid.to_owned(), amounts, pod: is_pod.then_some(object) }
}

pub fn id(resource: &ApiResource, metadata: &ObjectMeta) -> Id {
    let (group, name) = (resource.gvr.group.clone(), metadata.name.clone().unwrap_or_default());
    Id { group, resource: resource.gvr.resource.clone(), name }
}

/// Returns the usage of these resources in a quota's namespace, from consistent lists.
pub async fn list_usage(
    client: &Client,
    namespace: &str,
    quota: &Value,
    resources: &[ApiResource],
) -> Result<Amounts, Error> {
    let mut objects = Vec::new();
    for resource in resources {
        let list = client.dynamic(&resource.gvr, namespace).list(&ListOptions::default()).await?;
        objects.extend(list.items.into_iter().map(|object| {
            let uid = text(&object, "/metadata/uid").to_owned();
            object_usage(resource, &uid, object)
        }));
    }
    Ok(super::ledger::total(quota, objects.iter()))
}
