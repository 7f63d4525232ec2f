//! Tests every verb that discovery lists, for every kind and on every storage engine.

use crate::{etcd, program};
use client::watch::{Watch, WatchEvent};
use client::{Client, DeleteOptions, DynamicApi, Error, ListOptions, Patch, PatchOptions};
use e2e::apiserver::ApiServer;
use e2e::minimal;
use e2e::raw_request::RawRequest;
use e2e::store::Store;
use orrery::up::data_dir::DataDir;
use proto::Gvr;
use proto::resources::{Catalogue, Target, Verb};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Flags that switch on every version, and every gate before a kind.
const EVERYTHING: &[&str] = &[
    "--runtime-config=api/all=true",
    "--feature-gates=ClusterTrustBundle=true,DRADeviceTaintRules=true,GenericWorkload=true,PodCertificateRequest=true,\
     StorageVersionAPI=true,StorageVersionMigrator=true",
];
/// Namespace of the namespaced objects.
const NAMESPACE: &str = "default";
/// Label of all objects of one test run.
const LABEL: &str = "life";

/// The test of one kind.
struct KindTest {
    target: Target,
    api: DynamicApi,
    object: Value,
}

/// Success, or a description of the failure with its verb.
type Outcome = Result<(), String>;

fn at(step: &str) -> impl Fn(Error) -> String {
    move |error| format!("{step}: {error}")
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn revision(object: &Value) -> &Value {
    &object["metadata"]["resourceVersion"]
}

impl KindTest {
    fn new(client: &Client, target: Target) -> Self {
        let served = target.served();
        let chosen = format!("verbs{}", served.version);
        let mut object = minimal::in_namespace(served, &chosen, NAMESPACE);
        object["metadata"]["labels"] = json!({LABEL: "one"});
        let api = client.dynamic(&target.gvr(), if target.row.is_namespaced() { NAMESPACE } else { "" });
        Self { target, api, object }
    }

    fn has(&self, verb: Verb) -> bool {
        self.target.served().has_verb(verb)
    }

    /// Tests all verbs in order.
    async fn run(&self) -> Outcome {
        if !self.has(Verb::Get) {
            return self.review().await;
        }
        let before = self.api.list(&ListOptions::default()).await.map_err(at("list"))?;
        if !self.has(Verb::Create) {
            return Ok(()); // component statuses are only shown
        }
        let from = ListOptions {
            resource_version: before.metadata.resource_version,
            label_selector: format!("{LABEL}=one"),
            ..ListOptions::default()
        };
        let watch = self.api.watch(&from).await.map_err(at("watch"))?;
        self.create().await?;
        self.read().await?;
        self.update().await?;
        self.patch().await?;
        self.subresources().await?;
        self.delete().await?;
        check_watch(watch, 7).await?;
        self.delete_collection().await
    }

    /// Checks that a kind without `get` is a review: it has the verb `create` only, and is not stored.
    async fn review(&self) -> Outcome {
        let verbs: BTreeSet<Verb> = self.target.served().verbs.iter().copied().collect();
        if verbs != BTreeSet::from([Verb::Create]) {
            return Err(format!("{verbs:?} without get"));
        }
        match self.api.list(&ListOptions::default()).await {
            Err(error) if error.code() == 405 => Ok(()),
            other => Err(format!("a list of what is not stored: {other:?}")),
        }
    }

    async fn create(&self) -> Outcome {
        let created = self.api.create(&self.object).await.map_err(at("create"))?;
        if created["kind"] != self.object["kind"] || created["apiVersion"] != self.object["apiVersion"] {
            return Err(format!("create answered {} {}", created["apiVersion"], created["kind"]));
        }
        match self.api.create(&self.object).await {
            // A Service's second create fails at the address or port that the first one has.
            Err(error) if error.code() == 422 => self.wait_for_status().await,
            Err(error) if error.status().is_some_and(|status| status.reason == "AlreadyExists") => {
                self.wait_for_status().await
            }
            other => Err(format!("created twice: {other:?}")),
        }
    }

    /// Waits for the API server's own write to the status of some kinds.
    async fn wait_for_status(&self) -> Outcome {
        const MAX_CHECKS: usize = 1000;
        if !["APIService", "CustomResourceDefinition", "FlowSchema"].contains(&self.target.served().kind.as_ref()) {
            return Ok(());
        }
        for _ in 0..MAX_CHECKS {
            let got = self.api.get(name(&self.object)).await.map_err(at("get"))?;
            if got["status"]["conditions"].is_array() {
                return Ok(());
            }
        }
        Err("nobody writes its status".into())
    }

    async fn read(&self) -> Outcome {
        let got = self.api.get(name(&self.object)).await.map_err(at("get"))?;
        let listed = self.api.list(&ListOptions::default()).await.map_err(at("list"))?;
        let mut item = listed.items.into_iter().find(|item| name(item) == name(&self.object)).ok_or("not listed")?;
        // Items of a list have no kind and version.
        (item["apiVersion"], item["kind"]) = (got["apiVersion"].clone(), got["kind"].clone());
        if item == got { Ok(()) } else { Err(format!("got {got}, listed {item}")) }
    }

    /// Updates the object, and retries after a conflict, as clients do: the server may write a status meanwhile.
    async fn update(&self) -> Outcome {
        let (stale, written) = loop {
            let stale = self.api.get(name(&self.object)).await.map_err(at("get"))?;
            let mut next = stale.clone();
            next["metadata"]["annotations"]["put"] = json!("yes");
            match self.api.update(&next).await {
                Err(error) if error.code() == 409 => {}
                written => break (stale, written.map_err(at("update"))?),
            }
        };
        if revision(&written) == revision(&stale) {
            return Err("the update changed nothing".into());
        }
        match self.api.update(&stale).await {
            Err(error) if error.code() == 409 => Ok(()),
            other => Err(format!("an update of a stale object: {other:?}")),
        }
    }

    async fn patch(&self) -> Outcome {
        let annotate = |word: &str| json!({"metadata": {"annotations": {word: "yes"}}});
        let mut applied = self.object.clone();
        applied["metadata"]["annotations"] = json!({"applied": "yes"});
        let patches = [
            Patch::Json(json!([{"op": "add", "path": "/metadata/annotations/json", "value": "yes"}])),
            Patch::Merge(annotate("merge")),
            Patch::Strategic(annotate("strategic")),
            Patch::Apply { value: applied, manager: "applier".into(), force: true },
        ];
        for patch in &patches {
            let patched = self.patched(patch).await?;
            let again = self.patched(patch).await?;
            if revision(&patched) != revision(&again) {
                return Err(format!("{} wrote twice", patch.content_type()));
            }
        }
        let got = self.api.get(name(&self.object)).await.map_err(at("get"))?;
        let annotations = got["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        let missing =
            ["put", "json", "merge", "strategic", "applied"].iter().find(|word| !annotations.contains_key(**word));
        missing.map_or(Ok(()), |word| Err(format!("what {word:?} wrote is not there: {annotations:?}")))
    }

    async fn patched(&self, patch: &Patch) -> Result<Value, String> {
        let options = PatchOptions::default();
        self.api.patch(name(&self.object), patch, &options).await.map_err(at(patch.content_type()))
    }

    async fn subresources(&self) -> Outcome {
        let name = name(&self.object);
        for subresource in &self.target.served().subresources {
            if subresource.name != "status" && subresource.name != "scale" {
                continue; // every other subresource has its own test
            }
            let step = |verb: &str| format!("{verb} of {}", subresource.name);
            let got = self.api.get_subresource(name, &subresource.name).await.map_err(at(&step("get")))?;
            self.api.update_subresource(name, &subresource.name, &got).await.map_err(at(&step("update")))?;
            let patch = Patch::Merge(json!({}));
            let options = PatchOptions::default();
            let patched = self.api.patch_subresource(name, &subresource.name, &patch, &options).await;
            patched.map_err(at(&step("patch")))?;
        }
        Ok(())
    }

    async fn delete(&self) -> Outcome {
        self.api.delete(name(&self.object), &DeleteOptions::default()).await.map_err(at("delete"))?;
        self.finish_deletion().await
    }

    async fn delete_collection(&self) -> Outcome {
        if !self.has(Verb::DeleteCollection) {
            return Ok(());
        }
        self.api.create(&self.object).await.map_err(at("create again"))?;
        let which = |value: &str| ListOptions { label_selector: format!("{LABEL}={value}"), ..ListOptions::default() };
        let options = DeleteOptions::default();
        self.api.delete_collection(&options, &which("another")).await.map_err(at("deletecollection"))?;
        let left =
            self.api.get(name(&self.object)).await.map_err(at("get of an object that the selector does not match"))?;
        if !left["metadata"]["deletionTimestamp"].is_null() {
            return Err("deleted beside its selector".into());
        }
        self.api.delete_collection(&options, &which("one")).await.map_err(at("deletecollection"))?;
        self.finish_deletion().await
    }

    /// Checks that the object is deleted or marked for deletion. If it is marked, removes its finalizers, since no
    /// controller runs that would.
    async fn finish_deletion(&self) -> Outcome {
        let name = name(&self.object);
        let Ok(mut left) = self.api.get(name).await else { return Ok(()) };
        if left["metadata"]["deletionTimestamp"].is_null() {
            return Err("deleted, but not marked so".into());
        }
        if self.target.served().kind == "Namespace" {
            left["spec"]["finalizers"] = json!([]);
            self.api.update_subresource(name, "finalize", &left).await.map_err(at("finalize"))?;
        } else {
            let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            match self.api.patch(name, &patch, &PatchOptions::default()).await {
                // The API server itself removes the finalizer of definitions.
                Err(error) if error.is_not_found() => return Ok(()),
                outcome => outcome.map_err(at("patch"))?,
            };
        }
        match self.api.get(name).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => Err(format!("after its deletion: {other:?}")),
        }
    }
}

/// Checks the watch of one object: it is added, modified and deleted, in at least `changes` events with growing
/// revisions.
async fn check_watch(mut watch: Watch, changes: usize) -> Outcome {
    let (mut kinds, mut last) = (Vec::new(), 0);
    while kinds.last() != Some(&"DELETED") {
        let (kind, bytes) = match watch.next().await {
            Some(Ok(WatchEvent::Added(bytes))) => ("ADDED", bytes),
            Some(Ok(WatchEvent::Modified(bytes))) => ("MODIFIED", bytes),
            Some(Ok(WatchEvent::Deleted(bytes))) => ("DELETED", bytes),
            Some(Ok(WatchEvent::Bookmark { .. })) => continue,
            other => return Err(format!("the watch saw {kinds:?}, then {other:?}")),
        };
        let object: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        let revision: u64 = revision(&object).as_str().and_then(|text| text.parse().ok()).unwrap_or_default();
        if revision <= last {
            return Err(format!("the watch saw revision {revision} after {last}"));
        }
        last = revision;
        kinds.push(kind);
    }
    let is_whole =
        kinds[0] == "ADDED" && kinds.len() >= changes && kinds[1..kinds.len() - 1].iter().all(|k| *k == "MODIFIED");
    if is_whole { Ok(()) } else { Err(format!("the watch saw {kinds:?}")) }
}

/// Returns every resource that the server's discovery lists, with its verbs.
async fn discovered(client: &Client) -> Vec<(Gvr, BTreeSet<String>)> {
    let get = async |path: &str| RawRequest::get(path).send(client).await.expect("the server is there").body;
    let mut versions = vec![("/api/v1".to_owned(), String::new(), "v1".to_owned())];
    for group in get("/apis").await["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let path = format!("/apis/{}", text(&version["groupVersion"]));
            versions.push((path, text(&group["name"]), text(&version["version"])));
        }
    }
    let mut found = Vec::new();
    for (path, group, version) in versions {
        for resource in get(&path).await["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            if !name.contains('/') {
                let verbs = resource["verbs"].as_array().unwrap();
                let verbs = verbs.iter().map(|verb| verb.as_str().unwrap().to_owned()).collect();
                found.push((Gvr::new(&group, &version, name), verbs));
            }
        }
    }
    found
}

async fn test_all_kinds(store: Store<'_>) {
    let directory = tempfile::tempdir().unwrap();
    let data_dir = DataDir::open(&directory.path().join("data")).unwrap();
    let server = ApiServer::start_in(program(), Arc::new(data_dir), store, EVERYTHING).await;
    let client = server.client(&server.admin);
    // Pods need this service account, and the controller that creates it does not run here.
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    client.dynamic(&Gvr::new("", "v1", "serviceaccounts"), NAMESPACE).create(&account).await.unwrap();
    let (catalogue, mut failures) = (Catalogue::complete(), Vec::new());
    let discovered = discovered(&client).await;
    assert!(discovered.len() > 60, "discovery has lost resources: {}", discovered.len());
    for (gvr, discovered_verbs) in discovered {
        let target = catalogue.by_gvr(&gvr).expect("the table serves what is discovered");
        let verbs = target.served().verbs.iter().map(|verb| verb.as_str().to_owned());
        assert_eq!(discovered_verbs, verbs.collect(), "{gvr}");
        if let Err(why) = KindTest::new(&client, target).run().await {
            failures.push(format!("{gvr}: {why}"));
        }
    }
    assert!(failures.is_empty(), "{:?}: {} failed:\n{}", store.kind(), failures.len(), failures.join("\n"));
}

#[tokio::test]
async fn every_verb_of_every_kind_in_memory() {
    test_all_kinds(Store::Memory).await;
}

#[tokio::test]
async fn every_verb_of_every_kind_on_the_embedded_store() {
    test_all_kinds(Store::Embedded).await;
}

#[tokio::test]
async fn every_verb_of_every_kind_on_etcd() {
    let directory = tempfile::tempdir().unwrap();
    let Some(etcd) = etcd(directory.path()) else { return };
    test_all_kinds(Store::Etcd(&etcd)).await;
}
