//! Creates the roles and bindings that every cluster has, and repairs them.
//!
//! Corresponds to k8s.io/component-helpers/auth/rbac/reconciliation.

use super::roles::{self, RoleObject};
use access::authz::rules::{Rule, uncovered};
use registry::Registry;
use registry::mutation::Edit;
use registry::own_write::{ensure, own_mutation};
use request::UserInfo;
use request::options::DeleteOptions;
use serde_json::{Value, json};
use strategy::object_meta;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Creates a role or binding, or restores the rules, subjects and labels that it lacks. Additions stay. An object whose
/// annotation says `autoupdate: "false"` is left alone. A binding that names another role is replaced, because its role
/// cannot change.
pub async fn reconcile(registry: &Registry, wanted: RoleObject) -> registry::Result<()> {
    let RoleObject { resource, object: wanted } = wanted;
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

/// The change that a role or binding needs.
#[derive(Debug, PartialEq)]
enum Repair {
    None,
    /// Store this object: the current one, completed.
    Complete(Value),
    /// Delete the object, and create the wanted one.
    Replace,
}

/// Compares an object with the wanted one.
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

/// Appends items to the list at a pointer. Creates the list if it is missing.
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
    use registry::post_start::Milestone;

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
        let complete = api.get(path).await.body;
        let mut reduced = complete.clone();
        reduced["rules"] = json!([]);
        assert_eq!(api.ask(http::Method::PUT, path, reduced, &[]).await.body["rules"], Value::Null);
        api.server.server.lifecycle.hooks.fall_back(Milestone::Bootstrapped);
        let wanted = Rule::all_of(&complete);
        api.until(path, |answer| uncovered(&Rule::all_of(&answer.body), &wanted).is_empty()).await;
    }
}
