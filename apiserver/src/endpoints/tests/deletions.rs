//! Tests of deletions: preconditions, collections, finalizers, concurrent writers and objects that cannot be decoded.

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

/// Starts a server on a store to which tests can add a concurrent writer, the rival.
pub(super) async fn api_with_rival() -> (Api, Arc<Fault>) {
    let env = Env::simulated(1);
    let store = Fault::new(&env, Memory::new(&env));
    let config = Config { store: Some(StoreKind::Memory), ..Config::default() };
    let api = Api::on(&env, store.clone(), config).await;
    api.create("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "bot"}})).await;
    (api, store)
}

/// Returns the write of an edited copy of the key's object.
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

/// Returns the virtual time in which a collection is deleted from a slow store.
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
async fn a_propagation_policy_becomes_a_finalizer() {
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
async fn an_unreadable_object_is_deleted_with_the_option_for_it() {
    const OPTION: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
    let api = Api::start().await;
    let storage = &api.server.server.storage;
    storage.create("/registry/configmaps/default/bad", Bytes::from_static(b"{"), None).await.unwrap();
    let path = format!("{CONFIG_MAPS}/bad");
    assert_eq!(delete(&api, &path, json!({})).await.code, 500);
    let refused = delete(&api, &path, json!({OPTION: true, "gracePeriodSeconds": 1})).await;
    let why = format!("{OPTION}: Invalid value: true: cannot be set together with .gracePeriodSeconds");
    assert!(refused.code == 422 && refused.message().ends_with(&why), "{}", refused.text);
    assert_eq!(delete(&api, &path, json!({OPTION: true})).await.code, 200);
    assert_eq!(api.get(&path).await.code, 404);

    api.create(CONFIG_MAPS, json!({"metadata": {"name": "good"}})).await;
    let deleted = delete(&api, &format!("{CONFIG_MAPS}/good?{OPTION}=true&gracePeriodSeconds=1"), Value::Null).await;
    assert_eq!(deleted.code, 200, "what can be read is deleted as ever: {}", deleted.text);
}

/// Another writer changes the object three times between the write of its deletionTimestamp and its removal.
#[tokio::test(start_paused = true)]
async fn an_object_that_changes_during_its_deletion_is_removed_all_the_same() {
    let (api, store) = api_with_rival().await;
    let edits = Arc::new(AtomicUsize::new(3));
    let left = edits.clone();
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
    assert_eq!((deleted.code, edits.load(Ordering::Relaxed)), (200, 0), "{}", deleted.text);
    assert_eq!(api.get(&path).await.code, 404, "the pod is gone after the response");
    assert_eq!(deleted.body["status"]["message"], "0 to come", "the answer is its last state");
}

#[tokio::test(start_paused = true)]
async fn a_removal_checks_its_preconditions_and_leaves_a_new_object_of_the_name_alone() {
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

/// Two writers remove the last finalizer at the same time: both succeed, and the object is gone.
#[tokio::test(start_paused = true)]
async fn the_last_finalizer_may_be_removed_twice() {
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
