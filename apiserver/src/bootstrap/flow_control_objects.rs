//! Creates the FlowSchemas and PriorityLevelConfigurations that every cluster has, and repairs them.
//!
//! Mandatory objects always have the built-in spec. Suggested ones have it as long as their annotation
//! `autoupdate-spec` is true. Deleted objects are created again. Corresponds to k8s.io/apiserver/pkg/util/apihelpers
//! and pkg/registry/flowcontrol/ensurer.

use cacher::Snapshot;
use parking_lot::Mutex;
use registry::Registry;
use registry::mutation::Edit;
use registry::own_write::{ensure_as, own_mutation};
use request::UserInfo;
use request::options::DeleteOptions;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use strategy::object_meta;
use strategy::validation::flow_schemas;
use strategy::validation::flow_schemas::AUTOUPDATE;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const RESOURCES: [&str; 2] = ["flowschemas", "prioritylevelconfigurations"];
const MANAGER: &str = "api-priority-and-fairness-config-producer-v1";

/// Keeps the objects as they should be.
#[derive(Debug, Default)]
pub struct FlowControlObjects {
    /// The objects that were compared last, of both resources.
    compared: Mutex<Option<[Snapshot; 2]>>,
}

impl FlowControlObjects {
    /// Compares the caches with the built-in objects, so that the store is not read while they are equal. Objects that were
    /// compared before are not compared again.
    pub async fn reconcile(&self, registry: &Registry) -> registry::Result<()> {
        if registry.row_of(GROUP, RESOURCES[0]).is_err() {
            return Ok(());
        }
        let [schemas, levels] = RESOURCES.map(|resource| registry.row_of(GROUP, resource));
        let now = [schemas?.1.cacher.snapshot()?, levels?.1.cacher.snapshot()?];
        let is_same = |known: &[Snapshot; 2]| known.iter().zip(&now).all(|(known, now)| known.is_same(now));
        if self.compared.lock().as_ref().is_some_and(is_same) {
            return Ok(());
        }
        repair(registry).await?;
        *self.compared.lock() = Some(now);
        Ok(())
    }
}

/// Creates and updates the built-in objects, and deletes those of other versions.
async fn repair(registry: &Registry) -> registry::Result<()> {
    let mut names: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (resource, wanted) in flow_schemas::objects() {
        let name = object_meta::text(wanted, "name");
        let (_, row) = registry.row_of(GROUP, resource)?;
        match row.cacher.get("", name)? {
            None => ensure_as(registry, GROUP, resource, wanted.clone(), MANAGER).await?,
            Some(current) => {
                let mandatory = flow_schemas::mandatory(resource, name).is_some();
                if repaired(&current.to_value(), wanted, mandatory).is_some() {
                    write(registry, resource, name, wanted, mandatory).await?;
                }
            }
        }
        names.insert((resource, name));
    }
    for resource in RESOURCES {
        let (target, row) = registry.row_of(GROUP, resource)?;
        for (_, object) in row.cacher.snapshot()?.iter() {
            let name = object.index.name.clone();
            // Only objects that a server of another version created are deleted.
            if names.contains(&(resource, name.as_str()))
                || object.peek()["metadata"]["annotations"][AUTOUPDATE] != "true"
            {
                continue;
            }
            let (user, options) = (UserInfo::apiserver(), json!({"kind": "DeleteOptions", "apiVersion": "v1"}));
            let mut mutation = own_mutation(&target, &user, &options, "", &name);
            match registry.delete(&mut mutation, &DeleteOptions::default()).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Updates one object to the repaired one.
async fn write(
    registry: &Registry,
    resource: &str,
    name: &str,
    wanted: &Value,
    mandatory: bool,
) -> registry::Result<()> {
    let (target, _) = registry.row_of(GROUP, resource)?;
    let user = UserInfo::apiserver();
    let options = json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"});
    let mut mutation = own_mutation(&target, &user, &options, "", name);
    mutation.manager = MANAGER;
    let edit = |current: &Value| Ok(repaired(current, wanted, mandatory).unwrap_or_else(|| current.clone()));
    match registry.update(&mut mutation, &Edit(edit)).await {
        // It was deleted in the meantime: the next round creates it.
        Err(error) if error.is_not_found() => Ok(()),
        outcome => outcome.map(|_| ()),
    }
}

/// Returns the repaired object, or `None` if the current one is right.
fn repaired(current: &Value, wanted: &Value, mandatory: bool) -> Option<Value> {
    let follows = match current["metadata"]["annotations"][AUTOUPDATE].as_str() {
        _ if mandatory => true,
        Some("true") => true,
        Some("false") => false,
        // Without the annotation, a spec that was changed keeps the change.
        _ => current["metadata"]["generation"] == 1,
    };
    let mut object = current.clone();
    if follows {
        object["spec"] = wanted["spec"].clone();
    }
    object["metadata"]["annotations"][AUTOUPDATE] = json!(follows.to_string());
    (object != *current).then_some(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Api;
    use http::Method;

    #[test]
    fn a_spec_follows_while_its_annotation_says_so() {
        let wanted = json!({"metadata": {"name": "a"}, "spec": {"x": 1}});
        let object = |annotation: Value, generation: i64, x: i64| json!({"metadata": {"generation": generation, "annotations": {AUTOUPDATE: annotation}}, "spec": {"x": x}});
        let (yes, no, none) = (json!("true"), json!("false"), json!(null));
        let cases = [
            (object(yes.clone(), 1, 1), false, None),
            (object(yes.clone(), 5, 2), false, Some(object(yes.clone(), 5, 1))),
            (object(no.clone(), 1, 2), false, None),
            (object(none.clone(), 1, 2), false, Some(object(yes.clone(), 1, 1))),
            (object(none, 2, 2), false, Some(object(no.clone(), 2, 2))),
            (object(no, 1, 2), true, Some(object(yes, 1, 1))),
        ];
        for (current, mandatory, expected) in cases {
            assert_eq!(repaired(&current, &wanted, mandatory), expected, "{current}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_deleted_comes_back_and_what_is_left_over_goes() {
        let api = Api::start().await;
        let path = |name: &str| format!("/apis/{GROUP}/v1/flowschemas/{name}");
        let mut left_over = api.get(&path("service-accounts")).await.body;
        left_over["metadata"] = json!({"name": "of-old", "annotations": {AUTOUPDATE: "true"}});
        api.create(&format!("/apis/{GROUP}/v1/flowschemas"), left_over).await;
        for name in ["service-accounts", "catch-all"] {
            assert_eq!(api.ask(Method::DELETE, &path(name), "", &[]).await.code, 200);
            api.until(&path(name), |answer| answer.code == 200).await;
        }
        api.until(&path("of-old"), |answer| answer.code == 404).await;
    }
}
