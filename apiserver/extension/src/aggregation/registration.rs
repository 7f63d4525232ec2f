//! Keeps an APIService for every group and version that this server serves itself: the built-in ones from its start,
//! those of custom resources as definitions come and go.
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
/// Pause before a pass that could not do everything is repeated.
const AGAIN: Duration = Duration::from_secs(1);

/// What has to be done, by name.
#[derive(Debug, PartialEq)]
enum Step {
    Create(Value),
    /// Give it this spec.
    Restore(Value),
    Delete,
}

/// Until shutdown. `base` is what is built in and served.
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
        let built_in = of_catalogue(&base);
        upkeep.hooks.finished(Hook::Autoregistration);
        let mut is_start = true;
        loop {
            let (Ok(known), Ok(defined)) =
                (services.cacher.read(Freshness::Latest).await, definitions.cacher.read(Freshness::Latest).await)
            else {
                registry.env.sleep(AGAIN).await;
                continue;
            };
            let custom = of_definitions(&trees(&defined));
            let steps = plan(&trees(&known), &built_in, &custom, is_start);
            let done = join_all(steps.into_iter().map(|(name, step)| carry_out(registry, name, step))).await;
            let failed = done.into_iter().filter_map(Result::err).inspect(|error| {
                tracing::debug!(%error, "an APIService is not as it ought to be");
            });
            if failed.count() > 0 {
                registry.env.sleep(AGAIN).await;
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

pub(super) fn trees(snapshot: &Snapshot) -> Vec<Arc<Value>> {
    snapshot.iter().map(|(_, object)| object.value()).collect()
}

/// The names and specs of local APIServices.
type Wanted = BTreeMap<String, Value>;

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

fn of_catalogue(catalogue: &Catalogue) -> Wanted {
    let groups = catalogue.groups().iter();
    groups.flat_map(|group| group.versions.iter().map(|version| entry(&group.group, version))).collect()
}

fn of_definitions(definitions: &[Arc<Value>]) -> Wanted {
    let mut wanted = Wanted::new();
    for definition in definitions.iter().map(|definition| Definition(definition)) {
        let served = definition.versions().into_iter().filter(|version| version.is_served());
        wanted.extend(served.map(|version| entry(definition.group(), version.name())));
    }
    wanted
}

/// What nobody keeps automatically is left alone, and so is, after the start, what is kept at the start and was deleted.
fn plan(known: &[Arc<Value>], built_in: &Wanted, custom: &Wanted, is_start: bool) -> BTreeMap<String, Step> {
    let by_name: BTreeMap<&str, ApiService<'_>> =
        known.iter().map(|service| ApiService(service)).map(|service| (service.name(), service)).collect();
    let mut steps = BTreeMap::new();
    let kept = built_in.iter().map(|(name, spec)| (name, spec, ON_START));
    for (name, spec, how) in kept.chain(custom.iter().map(|(name, spec)| (name, spec, ALWAYS))) {
        match by_name.get(name.as_str()) {
            None if how == ALWAYS || is_start => {
                let object = json!({
                    "apiVersion": format!("{GROUP}/v1"), "kind": "APIService",
                    "metadata": {"name": name, "labels": {AUTOMANAGED: how}}, "spec": spec,
                });
                steps.insert(name.clone(), Step::Create(object));
            }
            Some(service) if !service.automanaged().is_empty() && service.0["spec"] != *spec => {
                steps.insert(name.clone(), Step::Restore(spec.clone()));
            }
            _ => {}
        }
    }
    let is_wanted = |name: &str| built_in.contains_key(name) || custom.contains_key(name);
    for (name, _) in by_name.iter().filter(|(name, service)| service.automanaged() == ALWAYS && !is_wanted(name)) {
        steps.insert((*name).to_owned(), Step::Delete);
    }
    steps
}

async fn carry_out(registry: &Registry, name: String, step: Step) -> registry::Result<()> {
    match step {
        Step::Create(object) => ensure(registry, GROUP, RESOURCE, object).await,
        Step::Restore(spec) => {
            let restored = |object: &Value| {
                let mut object = object.clone();
                object["spec"] = spec.clone();
                object
            };
            change(registry, (GROUP, RESOURCE), ("", &name), restored).await
        }
        Step::Delete => {
            let (target, _) = registry.row_of(GROUP, RESOURCE)?;
            let user = UserInfo::apiserver();
            let options = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
            let mut mutation = own_mutation(&target, &user, &options, "", &name);
            match registry.delete(&mut mutation, &DeleteOptions::default()).await {
                Err(gone) if gone.is_not_found() => Ok(()),
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

    fn shown(steps: &BTreeMap<String, Step>) -> Vec<String> {
        let word = |step: &Step| match step {
            Step::Create(_) => "create",
            Step::Restore(_) => "restore",
            Step::Delete => "delete",
        };
        steps.iter().map(|(name, step)| format!("{} {name}", word(step))).collect()
    }

    #[test]
    fn what_is_served_here_is_announced() {
        let built_in: Wanted = [entry("apps", "v1"), entry("", "v1")].into();
        let custom: Wanted = [entry("a.example", "v1")].into();
        let steps = plan(&[], &built_in, &custom, true);
        assert_eq!(shown(&steps), ["create v1.", "create v1.a.example", "create v1.apps"]);
        let Step::Create(object) = &steps["v1.a.example"] else { panic!("it is to be created") };
        assert_eq!(object["metadata"]["labels"], json!({AUTOMANAGED: "true"}));
        let spec = json!({"group": "a.example", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100});
        assert_eq!(object["spec"], spec);
        // Deleted later, built-in ones stay away; those of definitions come back.
        assert_eq!(shown(&plan(&[], &built_in, &custom, false)), ["create v1.a.example"]);
    }

    #[test]
    fn only_what_is_kept_automatically_is_touched() {
        let own = entry("a.example", "v1");
        let custom: Wanted = [own.clone()].into();
        let spec = own.1;
        let as_wanted = [known("v1.a.example", "true", spec)];
        assert_eq!(shown(&plan(&as_wanted, &Wanted::new(), &custom, true)), [""; 0]);
        let mut other = as_wanted[0].as_ref().clone();
        other["spec"]["versionPriority"] = json!(1);
        assert_eq!(shown(&plan(&[Arc::new(other.clone())], &Wanted::new(), &custom, true)), ["restore v1.a.example"]);
        other["metadata"]["labels"] = json!({});
        assert_eq!(shown(&plan(&[Arc::new(other)], &Wanted::new(), &custom, true)), [""; 0]);
        let gone = [known("v1.b.example", "true", json!({})), known("v1.c.example", "", json!({}))];
        assert_eq!(shown(&plan(&gone, &Wanted::new(), &Wanted::new(), false)), ["delete v1.b.example"]);
    }
}
