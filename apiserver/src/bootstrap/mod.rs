//! What a fresh server writes into its store: namespaces, roles, priority classes, the `kubernetes` Service.
//!
//! Every write goes through the one door, as the server's own user, and changes only what is missing.
//! Corresponds to the post-start hooks of kube-apiserver.

pub mod cluster_authentication;
pub mod flow_upkeep;
pub mod for_plugins;
pub mod kubernetes_service;
pub mod master_leases;
pub mod objects;
pub mod roles;
pub mod shared_flags;

use crate::server::Server;
use access::authn::legacy_token::day_of;
use access::authz::rules::{Rule, uncovered};
use futures::FutureExt;
use futures::future::join_all;
use kubernetes_service::Reconciler;
use registry::Registry;
use registry::mutation::Edit;
use registry::own_write::{ensure, own_mutation};
use registry::post_start::{Hook, Milestone};
use request::UserInfo;
use request::options::DeleteOptions;
use serde_json::{Value, json};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use strategy::object_meta;

const RBAC: &str = "rbac.authorization.k8s.io";
/// Pause before a failed start is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// How long telling the others of this server's end may take: they will find out.
pub const LEAVE_LIMIT: Duration = Duration::from_secs(2);
/// How often the `kubernetes` Service and the bootstrap objects are looked after.
const REPAIR_PERIOD: Duration = Duration::from_secs(10);

/// Keeps everything there until the end is announced; then tells the other servers that this one goes.
pub async fn run(server: Arc<Server>) {
    let end = async {
        tokio::select! {
            biased;
            () = server.ending.cancelled() => {}
            () = server.env.shutdown().cancelled() => {}
        }
    };
    let end = end.shared();
    if ready(&server, end.clone()).await {
        server.hooks.finished(Hook::StorageReadiness);
        let reconciler = Reconciler::new(&server);
        look_after(&server, &reconciler, end).await;
        let leave = kubernetes_service::leave(&server, &reconciler);
        if let Ok(Err(status)) = server.env.timeout(LEAVE_LIMIT, leave).await {
            tracing::warn!(error = %status, "the other servers are not told that this one ends");
        }
    }
    server.left.cancel();
}

/// Every row has read the store; false if the end comes before.
async fn ready(server: &Server, end: impl Future<Output = ()>) -> bool {
    let rows = server.registry.rows();
    let mut all = pin!(join_all(rows.iter().map(|row| row.cacher.ready())));
    tokio::select! {
        biased;
        () = end => false,
        ready = &mut all => ready.into_iter().all(|ready| ready),
    }
}

/// Writes what is missing, again and again until everything is there, then keeps it so.
async fn look_after(server: &Arc<Server>, reconciler: &Reconciler, end: impl Future<Output = ()> + Clone) {
    loop {
        let pause = match reconcile(server, reconciler).await {
            Ok(()) => {
                server.hooks.reach(Milestone::Bootstrapped);
                REPAIR_PERIOD
            }
            Err(status) => {
                tracing::warn!(error = %status, "writing the objects that every cluster has");
                RETRY
            }
        };
        tokio::select! {
            biased;
            () = end.clone() => return,
            () = server.env.sleep(pause) => {}
        }
    }
}

async fn reconcile(server: &Arc<Server>, reconciler: &Reconciler) -> registry::Result<()> {
    let registry = &server.registry;
    for namespace in objects::NAMESPACES {
        ensure(registry, "", "namespaces", objects::namespace(namespace)).await?;
    }
    server.hooks.finished(Hook::SystemNamespaces);
    if !server.hooks.has_reached(Milestone::Bootstrapped) {
        for class in objects::priority_classes() {
            ensure(registry, "scheduling.k8s.io", "priorityclasses", class).await?;
        }
        server.hooks.finished(Hook::SystemPriorityClasses);
        for bootstrap in roles::objects() {
            reconcile_role(registry, bootstrap).await?;
        }
        server.hooks.finished(Hook::BootstrapRoles);
    }
    flow_upkeep::reconcile(registry).await?;
    server.hooks.finished(Hook::FairnessConfigProducer);
    let tracking = objects::token_tracking(&day_of(server.env.wall()));
    ensure(registry, "", "configmaps", tracking).await?;
    server.hooks.finished(Hook::LegacyTokenTracking);
    cluster_authentication::reconcile(server).await?;
    server.hooks.finished(Hook::ClusterAuthenticationInfo);
    kubernetes_service::reconcile(server, reconciler).await?;
    server.hooks.finished(Hook::BootstrapController);
    Ok(())
}

/// Creates a role or binding, or gives it back what it lost, unless its owner has switched that off. What has been
/// added stays. A binding cannot change its role: one of another role is replaced.
async fn reconcile_role(registry: &Registry, bootstrap: roles::Bootstrap) -> registry::Result<()> {
    let roles::Bootstrap { resource, object: wanted } = bootstrap;
    let Ok((target, row)) = registry.row_of(RBAC, resource) else { return Ok(()) };
    let namespace = object_meta::text(&wanted, "namespace").to_owned();
    let name = object_meta::text(&wanted, "name").to_owned();
    let Some(current) = row.cacher.get_latest(&namespace, &name).await? else {
        return ensure(registry, RBAC, resource, wanted).await;
    };
    let user = UserInfo::apiserver();
    let options = json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"});
    let mut mutation = own_mutation(&target, &user, &options, &namespace, &name);
    match repair(&current.peek(), &wanted) {
        Repair::None => Ok(()),
        Repair::Complete(_) => {
            let edit = Edit(|current: &Value| match repair(current, &wanted) {
                Repair::Complete(object) => Ok(object),
                _ => Ok(current.clone()),
            });
            registry.update(&mut mutation, &edit).await.map(|_| ())
        }
        Repair::Replace => {
            registry.delete(&mut mutation, &DeleteOptions::default()).await?;
            ensure(registry, RBAC, resource, wanted).await
        }
    }
}

/// What has to be done to a role or binding.
#[derive(Debug, PartialEq)]
enum Repair {
    None,
    /// This is it with what it lacked.
    Complete(Value),
    Replace,
}

/// Corresponds to component-helpers/auth/rbac/reconciliation.
fn repair(current: &Value, wanted: &Value) -> Repair {
    if current["metadata"]["annotations"][roles::AUTOUPDATE] == "false" {
        return Repair::None;
    }
    if current.get("roleRef") != wanted.get("roleRef") {
        return Repair::Replace;
    }
    let mut object = current.clone();
    let aggregates = wanted.get("aggregationRule").is_some();
    if !aggregates {
        let missing = uncovered(&Rule::all_of(current), &Rule::all_of(wanted));
        append(&mut object, "/rules", missing.iter().map(Rule::to_value));
    }
    for list in ["/subjects", "/aggregationRule/clusterRoleSelectors"] {
        let of = |object: &Value| object.pointer(list).and_then(Value::as_array).cloned().unwrap_or_default();
        let there = of(current);
        append(&mut object, list, of(wanted).into_iter().filter(|item| !there.contains(item)));
    }
    for map in ["labels", "annotations"] {
        for (key, value) in wanted["metadata"][map].as_object().into_iter().flatten() {
            if object["metadata"][map].get(key).is_none() {
                object["metadata"][map][key] = value.clone();
            }
        }
    }
    if object == *current { Repair::None } else { Repair::Complete(object) }
}

/// Puts items at the end of a list, which is made if there is none.
fn append(object: &mut Value, pointer: &str, items: impl Iterator<Item = Value>) {
    let mut items = items.peekable();
    if items.peek().is_none() {
        return;
    }
    let list = pointer.split('/').skip(1).fold(object, |at, key| &mut at[key]);
    match list.as_array_mut() {
        Some(list) => list.extend(items),
        None => *list = items.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_get_back_what_they_lost_and_keep_what_they_got() {
        let rule = |verbs: &[&str], resource: &str| json!({"verbs": verbs, "apiGroups": [""], "resources": [resource]});
        let wanted = json!({
            "metadata": {"labels": {"a": "1"}, "annotations": {roles::AUTOUPDATE: "true"}},
            "rules": [rule(&["get", "list"], "pods"), rule(&["get"], "nodes")],
        });
        // What another rule covers, in other words, is not lost.
        let current = json!({
            "metadata": {"labels": {"a": "2", "b": "x"}},
            "rules": [rule(&["*"], "pods"), rule(&["delete"], "secrets")],
        });
        let Repair::Complete(done) = repair(&current, &wanted) else { panic!("something is lost") };
        assert_eq!(done["rules"], json!([rule(&["*"], "pods"), rule(&["delete"], "secrets"), rule(&["get"], "nodes")]));
        assert_eq!(
            done["metadata"],
            json!({"labels": {"a": "2", "b": "x"}, "annotations": {roles::AUTOUPDATE: "true"}})
        );
        assert_eq!(repair(&done, &wanted), Repair::None);
        let mut off = current;
        off["metadata"]["annotations"] = json!({roles::AUTOUPDATE: "false"});
        assert_eq!(repair(&off, &wanted), Repair::None);
    }

    #[test]
    fn selectors_and_subjects_come_back_and_another_role_is_replaced() {
        let selector = |label: &str| json!({"matchLabels": {label: "true"}});
        let role = |selectors: Value| json!({"metadata": {}, "aggregationRule": {"clusterRoleSelectors": selectors}, "rules": []});
        let own = role(json!([selector("own")]));
        let Repair::Complete(done) = repair(&own, &role(json!([selector("to-view")]))) else { panic!("one is lost") };
        assert_eq!(done["aggregationRule"]["clusterRoleSelectors"], json!([selector("own"), selector("to-view")]));
        let binding = |role: &str, subjects: Value| {
            let mut binding = json!({"metadata": {}, "roleRef": {"name": role}});
            if subjects != Value::Null {
                binding["subjects"] = subjects;
            }
            binding
        };
        let ann = json!({"kind": "User", "name": "ann"});
        let Repair::Complete(done) = repair(&binding("a", Value::Null), &binding("a", json!([ann]))) else {
            panic!("one is lost")
        };
        assert_eq!(done["subjects"], json!([ann]));
        assert_eq!(repair(&binding("b", json!([ann])), &binding("a", json!([ann]))), Repair::Replace);
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_repairs_what_was_taken_away() {
        let api = crate::testing::Api::start().await;
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:basic-user";
        let whole = api.get(path).await.body;
        let mut less = whole.clone();
        less["rules"] = json!([]);
        assert_eq!(api.ask(http::Method::PUT, path, less, &[]).await.body["rules"], Value::Null);
        let server = &api.server.server;
        server.hooks.fall_back(Milestone::Bootstrapped);
        reconcile(server, &Reconciler::new(server)).await.expect("the store is there");
        let repaired = Rule::all_of(&api.get(path).await.body);
        assert_eq!(uncovered(&repaired, &Rule::all_of(&whole)), []);
    }
}
