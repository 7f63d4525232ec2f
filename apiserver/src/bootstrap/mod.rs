//! What a fresh server writes into its store: namespaces, roles, priority classes, the `kubernetes` Service.
//!
//! Every write goes through the one door, as the server's own user, and changes only what is missing.
//! Corresponds to the post-start hooks of kube-apiserver.

pub mod flow_schemas;
pub mod kubernetes_service;
pub mod objects;
pub mod roles;

use crate::authn::UserInfo;
use crate::registry::mutation::{Edit, Mutation};
use crate::registry::{Registry, object_meta, set_defaults};
use crate::server::Server;
use proto::Status;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Pause before a failed start is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How often the `kubernetes` Service and the bootstrap objects are looked after.
const REPAIR_PERIOD: Duration = Duration::from_secs(10);

/// Writes what is missing, again and again until everything is there, then keeps it so.
pub async fn run(server: Arc<Server>) {
    let shutdown = server.env.shutdown().clone();
    for row in server.registry.rows() {
        if !row.cacher.ready().await {
            return;
        }
    }
    loop {
        let pause = match reconcile(&server).await {
            Ok(()) => {
                server.bootstrapped.store(true, Ordering::Release);
                REPAIR_PERIOD
            }
            Err(status) => {
                tracing::warn!(error = %status, "writing the objects that every cluster has");
                RETRY
            }
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = server.env.sleep(pause) => {}
        }
    }
}

async fn reconcile(server: &Arc<Server>) -> Result<(), Status> {
    let registry = &server.registry;
    if !server.bootstrapped.load(Ordering::Acquire) {
        for (group, resource, object) in objects::all() {
            ensure(registry, group, resource, object).await?;
        }
        for bootstrap in roles::objects() {
            reconcile_role(registry, bootstrap).await?;
        }
        for (resource, object) in flow_schemas::objects() {
            ensure(registry, "flowcontrol.apiserver.k8s.io", resource, object).await?;
        }
    }
    for namespace in objects::NAMESPACES {
        ensure(registry, "", "namespaces", objects::namespace(namespace)).await?;
    }
    kubernetes_service::reconcile(server).await
}

/// Creates an object unless one of its name is there.
pub async fn ensure(registry: &Registry, group: &str, resource: &str, object: Value) -> Result<(), Status> {
    let (target, row) = registry.row_of(group, resource)?;
    let namespace = object_meta::text(&object, "namespace").to_owned();
    let name = object_meta::text(&object, "name").to_owned();
    if row.cacher.get_latest(&namespace, &name).await.map_err(crate::registry::cache_failure)?.is_some() {
        return Ok(());
    }
    let user = UserInfo::apiserver();
    let options = json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"});
    let mut mutation = own_mutation(&target, &user, &options, &namespace, &name);
    let mut object = object;
    set_defaults(target.served(), &mut object);
    match registry.create(&mut mutation, object).await {
        Err(there) if there.reason == "AlreadyExists" => Ok(()),
        outcome => outcome.map(|_| ()),
    }
}

/// A write of the server's own.
pub fn own_mutation<'a>(
    target: &'a proto::resources::Target,
    user: &'a UserInfo,
    options: &'a Value,
    namespace: &'a str,
    name: &'a str,
) -> Mutation<'a> {
    Mutation {
        target,
        namespace,
        name,
        subresource: "",
        user,
        dry_run: false,
        options,
        manager: "kube-apiserver",
        warnings: Vec::new(),
    }
}

/// Creates a role or binding, or gives it back what it lost, unless its owner has switched that off. What has been
/// added stays.
async fn reconcile_role(registry: &Registry, bootstrap: roles::Bootstrap) -> Result<(), Status> {
    let roles::Bootstrap { resource, object: wanted } = bootstrap;
    let (target, row) = registry.row_of("rbac.authorization.k8s.io", resource)?;
    let namespace = object_meta::text(&wanted, "namespace").to_owned();
    let name = object_meta::text(&wanted, "name").to_owned();
    let Some(current) = row.cacher.get_latest(&namespace, &name).await.map_err(crate::registry::cache_failure)? else {
        return ensure(registry, "rbac.authorization.k8s.io", resource, wanted).await;
    };
    if completed(&current.value(), &wanted).is_none() {
        return Ok(());
    }
    let user = UserInfo::apiserver();
    let options = json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"});
    let mut mutation = own_mutation(&target, &user, &options, &namespace, &name);
    let edit = Edit(|current: &Value| Ok(completed(current, &wanted).unwrap_or_else(|| current.clone())));
    registry.update(&mut mutation, &edit).await.map(|_| ())
}

/// The object with the rules or subjects that it lacks; `None` where it lacks none or wants none.
fn completed(current: &Value, wanted: &Value) -> Option<Value> {
    let annotations = &current["metadata"]["annotations"];
    if annotations[roles::AUTOUPDATE] == "false" {
        return None;
    }
    let mut object = current.clone();
    let mut changed = false;
    if wanted.get("aggregationRule").is_none() {
        for list in ["rules", "subjects"] {
            for item in wanted[list].as_array().into_iter().flatten() {
                if !object[list].is_array() {
                    object[list] = json!([]);
                }
                let items = object[list].as_array_mut().expect("just made sure of it");
                if !items.contains(item) {
                    items.push(item.clone());
                    changed = true;
                }
            }
        }
    }
    for (key, value) in wanted["metadata"]["labels"].as_object().into_iter().flatten() {
        if object["metadata"]["labels"].get(key).is_none() {
            object["metadata"]["labels"][key] = value.clone();
            changed = true;
        }
    }
    changed.then_some(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_get_back_what_they_lost_and_keep_what_they_got() {
        let wanted = json!({"metadata": {"labels": {"a": "1"}}, "rules": [{"verbs": ["get"]}, {"verbs": ["list"]}]});
        let current = json!({"metadata": {"labels": {"a": "1"}}, "rules": [{"verbs": ["list"]}, {"verbs": ["own"]}]});
        let done = completed(&current, &wanted).unwrap();
        assert_eq!(done["rules"], json!([{"verbs": ["list"]}, {"verbs": ["own"]}, {"verbs": ["get"]}]));
        assert_eq!(completed(&done, &wanted), None);
        let mut off = current;
        off["metadata"]["annotations"] = json!({roles::AUTOUPDATE: "false"});
        assert_eq!(completed(&off, &wanted), None);
    }
}
