//! Registration: keeps an APIService for every group version that this server serves itself. Those of built-in resources
//! are created at its start, those of custom resources follow their definitions.
//!
//! Corresponds to the autoregistration and CRD registration controllers of k8s.io/kube-aggregator.

use super::api_service::{AUTOMANAGED, ApiService, GROUP, RESOURCE};
use crate::crd::definition::{self, Definition};
use cacher::{Freshness, Snapshot};
use futures::future::join_all;
use proto::resources::Catalogue;
use proto::resources::groups::priority;
use registry::Registry;
use registry::own_write::{change, ensure, own_mutation};
use registry::post_start::{Hook, Milestone};
use registry::upkeep::Upkeep;
use request::UserInfo;
use request::options::DeleteOptions;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const ON_START: &str = "onstart";
const ALWAYS: &str = "true";
/// Pause before a failed pass is repeated.
const RETRY_PERIOD: Duration = Duration::from_secs(1);

/// A change to one local APIService.
#[derive(Debug, PartialEq)]
enum Action {
    /// Create this object.
    Create(Value),
    /// Restore this spec.
    Restore(Value),
    Delete,
}

/// Keeps the local APIServices until shutdown. `base` holds the built-in resources that are served.
pub async fn run(upkeep: Upkeep, base: Arc<Catalogue>) {
    let registry = &upkeep.registry;
    let follow = async {
        let (Ok((_, services)), Ok((_, definitions))) =
            (registry.row_of(GROUP, RESOURCE), registry.row_of(definition::GROUP, definition::RESOURCE))
        else {
            upkeep.hooks.reach(Milestone::ApiServicesRegistered);
            upkeep.hooks.finished(Hook::Autoregistration);
            return;
        };
        let built_in = built_in_specs(&base);
        upkeep.hooks.finished(Hook::Autoregistration);
        let mut is_start = true;
        loop {
            let (Ok(known), Ok(defined)) =
                (services.cacher.read(Freshness::Latest).await, definitions.cacher.read(Freshness::Latest).await)
            else {
                registry.env.sleep(RETRY_PERIOD).await;
                continue;
            };
            let custom = custom_specs(&trees(&defined));
            let actions = plan(&trees(&known), &built_in, &custom, is_start);
            let results = join_all(actions.into_iter().map(|(name, action)| apply(registry, name, action))).await;
            let failed = results.into_iter().filter_map(Result::err).inspect(|error| {
                tracing::debug!(%error, "an APIService is not as it ought to be");
            });
            if failed.count() > 0 {
                registry.env.sleep(RETRY_PERIOD).await;
                continue;
            }
            is_start = false;
            upkeep.hooks.reach(Milestone::ApiServicesRegistered);
            tokio::select! {
                biased;
                () = services.cacher.changed(&known) => {}
                () = definitions.cacher.changed(&defined) => {}
            }
        }
    };
    upkeep.until_end(follow).await;
}

/// Returns the objects of a snapshot as JSON values.
pub(super) fn trees(snapshot: &Snapshot) -> Vec<Arc<Value>> {
    snapshot.iter().map(|(_, object)| object.value()).collect()
}

/// The specs that local APIServices should have, by name.
type Specs = BTreeMap<String, Value>;

/// Returns the name and spec of the local APIService of a group version.
fn entry(group: &str, version: &str) -> (String, Value) {
    let priority = priority(group, version);
    let mut spec = json!({
        "version": version, "groupPriorityMinimum": priority.group, "versionPriority": priority.version,
    });
    if !group.is_empty() {
        spec["group"] = json!(group);
    }
    (format!("{version}.{group}"), spec)
}

/// Returns the specs for the group versions of built-in resources.
fn built_in_specs(catalogue: &Catalogue) -> Specs {
    let groups = catalogue.groups().iter();
    groups.flat_map(|group| group.versions.iter().map(|version| entry(&group.group, version))).collect()
}

/// Returns the specs for the group versions of custom resources.
fn custom_specs(definitions: &[Arc<Value>]) -> Specs {
    let mut specs = Specs::new();
    for definition in definitions.iter().map(|definition| Definition(definition)) {
        let served = definition.versions().into_iter().filter(|version| version.is_served());
        specs.extend(served.map(|version| entry(definition.group(), version.name())));
    }
    specs
}

/// Plans the changes to the local APIServices, by name. An APIService without the automanaged label is left alone. One of
/// a built-in group is created at the start only: if it is deleted later, it stays deleted.
fn plan(known: &[Arc<Value>], built_in: &Specs, custom: &Specs, is_start: bool) -> BTreeMap<String, Action> {
    let by_name: BTreeMap<&str, ApiService<'_>> =
        known.iter().map(|service| ApiService(service)).map(|service| (service.name(), service)).collect();
    let mut actions = BTreeMap::new();
    let on_start = built_in.iter().map(|(name, spec)| (name, spec, ON_START));
    for (name, spec, how) in on_start.chain(custom.iter().map(|(name, spec)| (name, spec, ALWAYS))) {
        match by_name.get(name.as_str()) {
            None if how == ALWAYS || is_start => {
                let object = json!({
                    "apiVersion": format!("{GROUP}/v1"), "kind": "APIService",
                    "metadata": {"name": name, "labels": {AUTOMANAGED: how}}, "spec": spec,
                });
                actions.insert(name.clone(), Action::Create(object));
            }
            Some(service) if !service.automanaged().is_empty() && service.0["spec"] != *spec => {
                actions.insert(name.clone(), Action::Restore(spec.clone()));
            }
            _ => {}
        }
    }
    let is_served = |name: &str| built_in.contains_key(name) || custom.contains_key(name);
    for (name, _) in by_name.iter().filter(|(name, service)| service.automanaged() == ALWAYS && !is_served(name)) {
        actions.insert((*name).to_owned(), Action::Delete);
    }
    actions
}

async fn apply(registry: &Registry, name: String, action: Action) -> registry::Result<()> {
    match action {
        Action::Create(object) => ensure(registry, GROUP, RESOURCE, object).await,
        Action::Restore(spec) => {
            let restored = |object: &Value| {
                let mut object = object.clone();
                object["spec"] = spec.clone();
                object
            };
            change(registry, (GROUP, RESOURCE), ("", &name), restored).await
        }
        Action::Delete => {
            let (target, _) = registry.row_of(GROUP, RESOURCE)?;
            let user = UserInfo::apiserver();
            let options = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
            let mut mutation = own_mutation(&target, &user, &options, "", &name);
            match registry.delete(&mut mutation, &DeleteOptions::default()).await {
                Err(error) if error.is_not_found() => Ok(()),
                outcome => outcome.map(|_| ()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &str, how: &str, spec: Value) -> Arc<Value> {
        let mut object = json!({"metadata": {"name": name}, "spec": spec});
        if !how.is_empty() {
            object["metadata"]["labels"] = json!({AUTOMANAGED: how});
        }
        Arc::new(object)
    }

    fn shown(actions: &BTreeMap<String, Action>) -> Vec<String> {
        let word = |action: &Action| match action {
            Action::Create(_) => "create",
            Action::Restore(_) => "restore",
            Action::Delete => "delete",
        };
        actions.iter().map(|(name, action)| format!("{} {name}", word(action))).collect()
    }

    #[test]
    fn group_versions_of_this_server_get_an_api_service() {
        let built_in: Specs = [entry("apps", "v1"), entry("", "v1")].into();
        let custom: Specs = [entry("a.example", "v1")].into();
        let actions = plan(&[], &built_in, &custom, true);
        assert_eq!(shown(&actions), ["create v1.", "create v1.a.example", "create v1.apps"]);
        let Action::Create(object) = &actions["v1.a.example"] else { panic!("it is to be created") };
        assert_eq!(object["metadata"]["labels"], json!({AUTOMANAGED: "true"}));
        let spec = json!({"group": "a.example", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100});
        assert_eq!(object["spec"], spec);
        // After the start, a deleted APIService is created again only for a custom resource.
        assert_eq!(shown(&plan(&[], &built_in, &custom, false)), ["create v1.a.example"]);
    }

    #[test]
    fn only_automanaged_api_services_change() {
        let own = entry("a.example", "v1");
        let custom: Specs = [own.clone()].into();
        let spec = own.1;
        let unchanged = [known("v1.a.example", "true", spec)];
        assert_eq!(shown(&plan(&unchanged, &Specs::new(), &custom, true)), [""; 0]);
        let mut other = unchanged[0].as_ref().clone();
        other["spec"]["versionPriority"] = json!(1);
        assert_eq!(shown(&plan(&[Arc::new(other.clone())], &Specs::new(), &custom, true)), ["restore v1.a.example"]);
        other["metadata"]["labels"] = json!({});
        assert_eq!(shown(&plan(&[Arc::new(other)], &Specs::new(), &custom, true)), [""; 0]);
        let gone = [known("v1.b.example", "true", json!({})), known("v1.c.example", "", json!({}))];
        assert_eq!(shown(&plan(&gone, &Specs::new(), &Specs::new(), false)), ["delete v1.b.example"]);
    }
}
