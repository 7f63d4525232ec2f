//! Writes of the server itself: they pass the same stages as a client's, as the user `system:apiserver`.
//!
//! Corresponds to the loopback client of kube-apiserver.

use super::mutation::{Admission, Edit, Mutation};
use super::{Registry, Result};
use patch::defaults::set_defaults;
use proto::resources::Target;
use request::UserInfo;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use strategy::object_meta;

/// Field manager of the server's own writes.
const MANAGER: &str = "kube-apiserver";

/// Creates an object, unless it exists or its resource is not served.
pub async fn ensure(registry: &Registry, group: &str, resource: &str, object: Value) -> Result<()> {
    ensure_as(registry, group, resource, object, MANAGER).await
}

/// Does what [`ensure`] does, with another field manager.
pub async fn ensure_as(registry: &Registry, group: &str, resource: &str, object: Value, manager: &str) -> Result<()> {
    let Ok((target, row)) = registry.row_of(group, resource) else { return Ok(()) };
    let namespace = object_meta::text(&object, "namespace").to_owned();
    let name = object_meta::text(&object, "name").to_owned();
    if row.cacher.get_latest(&namespace, &name).await?.is_some() {
        return Ok(());
    }
    let user = UserInfo::apiserver();
    let options = json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"});
    let mut mutation = own_mutation(&target, &user, &options, &namespace, &name);
    mutation.manager = manager;
    let mut object = object;
    set_defaults(target.served(), &mut object);
    match registry.create(&mut mutation, object).await {
        Err(error) if error.is_already_exists() => Ok(()),
        outcome => outcome.map(|_| ()),
    }
}

/// Updates an existing object with a pure function.
pub async fn change(
    registry: &Registry,
    (group, resource): (&str, &str),
    (namespace, name): (&str, &str),
    changed: impl Fn(&Value) -> Value + Send + Sync,
) -> Result<()> {
    let (target, _) = registry.row_of(group, resource)?;
    let user = UserInfo::apiserver();
    let options = json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"});
    let mut mutation = own_mutation(&target, &user, &options, namespace, name);
    registry.update(&mut mutation, &Edit(|current: &Value| Ok(changed(current)))).await.map(|_| ())
}

/// Describes a write of the server itself.
pub fn own_mutation<'a>(
    target: &'a Target,
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
        admission: Admission::Named,
        deadline: None,
        options,
        manager: MANAGER,
        warnings: Vec::new(),
        annotations: BTreeMap::new(),
        steps: None,
    }
}
