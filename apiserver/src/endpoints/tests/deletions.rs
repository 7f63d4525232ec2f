//! Deletions: which objects, under which conditions, and what cannot be read.

use super::{CONFIG_MAPS, PODS, pod};
use crate::config::{Config, StoreKind};
use crate::testing::{Answer, Api};
use bytes::Bytes;
use component_base::env::Env;
use http::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use storage::fault::{Fault, Faults};
use storage::memory::Memory;
use storage::{Change, Entry};

async fn delete(api: &Api, path: &str, options: Value) -> Answer {
    api.ask(Method::DELETE, path, options, &[]).await
}

/// A server whose store has room for a rival, and the store.
pub(super) async fn api_with_rival() -> (Api, Arc<Fault>) {
    let env = Env::simulated(1);
    let store = Fault::new(&env, Memory::new(&env));
    let config = Config { store: Some(StoreKind::Memory), ..Config::default() };
    let api = Api::on(&env, store.clone(), config).await;
    api.create("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "bot"}})).await;
    (api, store)
}

/// What the key holds, changed.
pub(super) fn edited(entry: Option<&Entry>, edit: impl FnOnce(&mut Value)) -> Change {
    let mut object: Value = serde_json::from_slice(&entry.expect("it is there").value).unwrap();
    edit(&mut object);
    Change::Put { value: serde_json::to_vec(&object).unwrap().into(), ttl: None }
}

async fn names(api: &Api, query: &str) -> Vec<String> {
    let list = api.get(&format!("{CONFIG_MAPS}?{query}")).await.body;
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn preconditions_hold_a_deletion_back() {
    let api = Api::start().await;
    let old = api.create(CONFIG_MAPS, json!({"metadata": {"name": "c"}})).await["metadata"].clone();
    let path = format!("{CONFIG_MAPS}/c");
    api.ask(Method::PATCH, &path, json!({"data": {"a": "b"}}), &[("content-type", "application/merge-patch+json")])
        .await;
    for precondition in [json!({"uid": "other"}), json!({"resourceVersion": old["resourceVersion"]})] {
        let refused = delete(&api, &path, json!({"preconditions": precondition})).await;
        assert_eq!((refused.code, &refused.body["reason"]), (409, &json!("Conflict")), "{precondition}");
    }
    let both = json!({"uid": old["uid"], "resourceVersion": api.get(&path).await.body["metadata"]["resourceVersion"]});
    assert_eq!(delete(&api, &path, json!({"preconditions": both})).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_as_far_as_selectors_and_limit_reach() {
    let api = Api::start().await;
    for name in ["a", "b", "c", "d"] {
        let even = ["b", "d"].contains(&name).to_string();
        api.create(CONFIG_MAPS, json!({"metadata": {"name": name, "labels": {"of": "test", "even": even}}})).await;
    }
    let some = format!("{CONFIG_MAPS}?labelSelector=of=test,even=true&fieldSelector=metadata.name!=d");
    delete(&api, &some, json!({"dryRun": ["All"]})).await;
    assert_eq!(names(&api, "labelSelector=of=test").await, ["a", "b", "c", "d"]);
    delete(&api, &some, json!({})).await;
    assert_eq!(names(&api, "labelSelector=of=test").await, ["a", "c", "d"]);
    let page = delete(&api, &format!("{CONFIG_MAPS}?labelSelector=of=test&limit=2"), json!({})).await;
    assert_eq!(names(&api, "labelSelector=of=test").await, ["d"]);
    let token = page.body["metadata"]["continue"].as_str().unwrap();
    delete(&api, &format!("{CONFIG_MAPS}?labelSelector=of=test&continue={token}"), json!({})).await;
    assert_eq!(names(&api, "labelSelector=of=test").await, [""; 0]);
}

/// How long a slow store lets a collection be deleted, in virtual time.
async fn slow_deletion_of_a_collection(workers: usize) -> Duration {
    let env = Env::simulated(1);
    let store = Fault::new(&env, Memory::new(&env));
    let config = Config { store: Some(StoreKind::Memory), delete_collection_workers: workers, ..Config::default() };
    let api = Api::on(&env, store.clone(), config).await;
    for number in 0..64 {
        api.create(CONFIG_MAPS, json!({"metadata": {"name": format!("c{number}"), "labels": {"of": "test"}}})).await;
    }
    store.set(Faults { delay: 1.0, longest_delay: Duration::from_millis(100), ..Faults::default() });
    let began = env.now();
    assert_eq!(delete(&api, &format!("{CONFIG_MAPS}?labelSelector=of=test"), json!({})).await.code, 200);
    let took = env.now().duration_since(began);
    store.set(Faults::default());
    assert_eq!(names(&api, "labelSelector=of=test").await, [""; 0]);
    took
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_collection_wait_for_the_store_together() {
    let (alone, together) = (slow_deletion_of_a_collection(1).await, slow_deletion_of_a_collection(16).await);
    assert!(together * 8 < alone, "{together:?} by sixteen workers, {alone:?} by one");
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_dependents_is_told_by_finalizers() {
    let api = Api::start().await;
    let cases = [
        (json!({"propagationPolicy": "Orphan"}), json!(["orphan"])),
        (json!({"propagationPolicy": "Foreground"}), json!(["foregroundDeletion"])),
        (json!({"orphanDependents": true}), json!(["orphan"])),
    ];
    for (options, finalizers) in cases {
        let name =
            api.create(CONFIG_MAPS, json!({"metadata": {"generateName": "c"}})).await["metadata"]["name"].clone();
        let path = format!("{CONFIG_MAPS}/{}", name.as_str().unwrap());
        let waiting = delete(&api, &path, options.clone()).await;
        assert_eq!((waiting.code, &waiting.body["metadata"]["finalizers"]), (200, &finalizers), "{options}");
        let patch = json!({"metadata": {"finalizers": null}});
        api.ask(Method::PATCH, &path, patch, &[("content-type", "application/merge-patch+json")]).await;
        assert_eq!(api.get(&path).await.code, 404, "nothing holds it");
    }
    let both = json!({"orphanDependents": true, "propagationPolicy": "Orphan"});
    assert_eq!(delete(&api, &format!("{CONFIG_MAPS}/none"), both).await.code, 422);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_can_be_deleted_by_who_says_so() {
    const SAYS_SO: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
    let api = Api::start().await;
    let storage = &api.server.server.storage;
    storage.create("/registry/configmaps/default/bad", Bytes::from_static(b"{"), None).await.unwrap();
    let path = format!("{CONFIG_MAPS}/bad");
    assert_eq!(delete(&api, &path, json!({})).await.code, 500);
    let refused = delete(&api, &path, json!({SAYS_SO: true, "gracePeriodSeconds": 1})).await;
    let why = format!("{SAYS_SO}: Invalid value: true: cannot be set together with .gracePeriodSeconds");
    assert!(refused.code == 422 && refused.message().ends_with(&why), "{}", refused.text);
    assert_eq!(delete(&api, &path, json!({SAYS_SO: true})).await.code, 200);
    assert_eq!(api.get(&path).await.code, 404);

    api.create(CONFIG_MAPS, json!({"metadata": {"name": "good"}})).await;
    let deleted = delete(&api, &format!("{CONFIG_MAPS}/good?{SAYS_SO}=true&gracePeriodSeconds=1"), Value::Null).await;
    assert_eq!(deleted.code, 200, "what can be read is deleted as ever: {}", deleted.text);
}

/// Between the mark and the removal another writer changes the object three times.
#[tokio::test(start_paused = true)]
async fn an_object_that_changes_between_mark_and_removal_is_removed_all_the_same() {
    let (api, store) = api_with_rival().await;
    let turns = Arc::new(AtomicUsize::new(3));
    let left = turns.clone();
    store.set_rival(move |write, entry| {
        if write.change != Change::Delete || left.load(Ordering::Relaxed) == 0 {
            return vec![];
        }
        left.fetch_sub(1, Ordering::Relaxed);
        let message = json!(format!("{} to come", left.load(Ordering::Relaxed)));
        vec![edited(entry, |pod| pod["status"]["message"] = message)]
    });
    api.create(PODS, pod("p")).await;
    let path = format!("{PODS}/p");
    let deleted = delete(&api, &path, json!({"gracePeriodSeconds": 0})).await;
    assert_eq!((deleted.code, turns.load(Ordering::Relaxed)), (200, 0), "{}", deleted.text);
    assert_eq!(api.get(&path).await.code, 404, "who was told that it is gone does not find it");
    assert_eq!(deleted.body["status"]["message"], "0 to come", "the answer is its last state");
}

#[tokio::test(start_paused = true)]
async fn a_removal_minds_its_preconditions_and_leaves_a_namesake_alone() {
    let (api, store) = api_with_rival().await;
    store.set_rival(|write, entry| match write.change {
        Change::Delete if write.key.ends_with("/changed") => {
            vec![edited(entry, |pod| pod["status"]["message"] = json!("m"))]
        }
        Change::Delete if write.key.ends_with("/namesake") => {
            vec![
                Change::Delete,
                edited(entry, |pod| {
                    pod["metadata"]["uid"] = json!("another");
                    pod["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
                }),
            ]
        }
        Change::Delete if write.key.ends_with("/gone") => vec![Change::Delete],
        _ => vec![],
    });
    for (name, versioned, code) in [("changed", true, 409), ("namesake", false, 200), ("gone", false, 200)] {
        let made = api.create(PODS, pod(name)).await;
        let mut options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": made["metadata"]["uid"]}});
        if versioned {
            options["preconditions"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
        }
        let deleted = delete(&api, &format!("{PODS}/{name}"), options).await;
        assert_eq!(deleted.code, code, "{name}: {}", deleted.text);
    }
    assert_eq!(api.get(&format!("{PODS}/namesake")).await.body["metadata"]["uid"], "another");
    let left = api.get(&format!("{PODS}/changed")).await;
    assert!(left.body["metadata"]["deletionTimestamp"].is_string(), "{}", left.text);
}

/// Two writers take the last finalizer at the same time: both wanted the object to go, and it is gone.
#[tokio::test(start_paused = true)]
async fn the_last_finalizer_may_be_taken_twice() {
    let (api, store) = api_with_rival().await;
    store.set_rival(|write, _| if write.change == Change::Delete { vec![Change::Delete] } else { vec![] });
    api.create(CONFIG_MAPS, json!({"metadata": {"name": "c", "finalizers": ["a/b"]}})).await;
    let path = format!("{CONFIG_MAPS}/c");
    assert_eq!(delete(&api, &path, json!({})).await.code, 200);
    let patch = json!({"metadata": {"finalizers": null}});
    let taken = api.ask(Method::PATCH, &path, patch, &[("content-type", "application/merge-patch+json")]).await;
    assert_eq!(taken.code, 200, "{}", taken.text);
    assert_eq!(api.get(&path).await.code, 404);
}
