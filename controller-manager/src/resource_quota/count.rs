//! What one object takes, as the caches and as the server's own lists show it.

use super::ledger::{Id, Taken};
use crate::discovery::ApiResource;
use client::{Client, Error, ListOptions};
use proto::fields::text;
use proto::kinds::metav1::ObjectMeta;
use proto::quota::{Amounts, usage};
use serde_json::Value;

/// Kinds whose objects are looked into; of all others only the number counts.
pub fn is_looked_into(group: &str, resource: &str) -> bool {
    group.is_empty() && matches!(resource, "pods" | "services" | "persistentvolumeclaims")
}

/// `object` may be null where only the number counts.
pub fn taken(resource: &ApiResource, uid: &str, object: Value) -> Taken {
    let (group, name) = (resource.gvr.group.as_str(), resource.gvr.resource.as_str());
    let amounts = usage(group, name, &object);
    let is_pod = group.is_empty() && name == "pods";
    Taken { uid: uid.to_owned(), amounts, pod: is_pod.then_some(object) }
}

pub fn id(resource: &ApiResource, metadata: &ObjectMeta) -> Id {
    let (group, name) = (resource.gvr.group.clone(), metadata.name.clone().unwrap_or_default());
    Id { group, resource: resource.gvr.resource.clone(), name }
}

/// What a quota's namespace holds of these resources, by consistent lists.
pub async fn listed(
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
            taken(resource, &uid, object)
        }));
    }
    Ok(super::ledger::total(quota, objects.iter()))
}
