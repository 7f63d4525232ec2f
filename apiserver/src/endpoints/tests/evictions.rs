//! Tests of evictions with concurrent writers: the deleted pod is the one that the decision was for, and its budget holds.

use super::deletions::{api_with_rival, edited};
use super::{PODS, pod};
use crate::testing::{Answer, Api};
use http::Method;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use storage::{Change, Entry};

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");

/// Creates a budget of an app's pods that allows `allowed` disruptions. Two of its pods are healthy, one has to be.
async fn create_budget(api: &Api, app: &str, allowed: i64) {
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": app}}});
    api.create(BUDGETS, json!({"metadata": {"name": app}, "spec": spec})).await;
    let status = json!({
        "observedGeneration": 1, "disruptionsAllowed": allowed,
        "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
    });
    patch(api, &format!("{BUDGETS}/{app}/status"), json!({"status": status})).await;
}

async fn patch(api: &Api, path: &str, patch: Value) -> Value {
    let answer = api.ask(Method::PATCH, path, patch, &[MERGE]).await;
    assert_eq!(answer.code, 200, "{}", answer.text);
    answer.body
}

fn status(phase: &str, ready: &str) -> Value {
    json!({"phase": phase, "qosClass": "BestEffort", "conditions": [{"type": "Ready", "status": ready}]})
}

async fn create_pod(api: &Api, name: &str, phase: &str, ready: &str) -> Value {
    api.create(PODS, pod(name)).await;
    patch(api, &format!("{PODS}/{name}/status"), json!({"status": status(phase, ready)})).await
}

async fn evict(api: &Api, name: &str, options: Value) -> Answer {
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options,
    });
    api.post(&format!("{PODS}/{name}/eviction"), eviction).await
}

fn cause(answer: &Answer) -> &str {
    answer.body["details"]["causes"][0]["message"].as_str().unwrap_or_default()
}

/// Returns a rival that makes these changes once, before the next write of this pod.
fn once(
    name: &'static str,
    changes: impl Fn(Option<&Entry>) -> Vec<Change> + Send + Sync + 'static,
) -> impl Fn(&storage::Write, Option<&Entry>) -> Vec<Change> + Send + Sync + 'static {
    let is_done = AtomicBool::new(false);
    move |write, entry| {
        let is_pod = write.key.starts_with("/registry/pods/") && write.key.ends_with(&format!("/{name}"));
        if is_pod && !is_done.swap(true, Ordering::Relaxed) { changes(entry) } else { vec![] }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_becomes_ready_meanwhile_is_protected_by_its_budget() {
    let (api, store) = api_with_rival().await;
    for (name, phase, why) in [
        ("pending", "Pending", "The disruption budget pending does not allow evicting pods currently"),
        ("unready", "Running", "The disruption budget unready is still being processed by the server."),
    ] {
        create_pod(&api, name, phase, "False").await;
        create_budget(&api, name, 0).await;
        store.set_rival(once(name, |entry| vec![edited(entry, |pod| pod["status"] = status("Running", "True"))]));
        let refused = evict(&api, name, json!({})).await;
        assert_eq!((refused.code, cause(&refused)), (429, why), "{name}: {}", refused.text);
        let left = api.get(&format!("{PODS}/{name}")).await;
        assert_eq!((left.code, &left.body["metadata"]["deletionTimestamp"]), (200, &Value::Null), "{}", left.text);
    }
}

/// Between the decision and the deletion, the pod is replaced by another one of the same name.
#[tokio::test(start_paused = true)]
async fn a_new_pod_of_the_same_name_gets_its_own_decision() {
    let (api, store) = api_with_rival().await;
    create_budget(&api, "guarded", 0).await;
    for (name, phase) in [("running", "Running"), ("over", "Succeeded")] {
        create_pod(&api, name, phase, "True").await;
        store.set_rival(once(name, |entry| {
            let namesake = edited(entry, |pod| {
                pod["metadata"]["uid"] = json!("another");
                pod["metadata"]["labels"]["app"] = json!("guarded");
                pod["status"] = status("Running", "True");
            });
            vec![Change::Delete, namesake]
        }));
        let refused = evict(&api, name, json!({})).await;
        assert_eq!(refused.code, 429, "{name}: {}", refused.text);
        let left = api.get(&format!("{PODS}/{name}")).await.body;
        assert_eq!(
            (&left["metadata"]["uid"], &left["metadata"]["deletionTimestamp"]),
            (&json!("another"), &Value::Null),
            "{name}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn preconditions_of_an_eviction_are_kept_and_not_tried_again() {
    let (api, _) = api_with_rival().await;
    let made = create_pod(&api, "p", "Running", "True").await;
    patch(&api, &format!("{PODS}/p"), json!({"metadata": {"labels": {"a": "b"}}})).await;
    let env = &api.server.server.env;
    let began = env.now();
    for wrong in [json!({"uid": "other"}), json!({"resourceVersion": made["metadata"]["resourceVersion"]})] {
        let refused = evict(&api, "p", json!({"preconditions": wrong})).await;
        assert_eq!((refused.code, &refused.body["reason"]), (409, &json!("Conflict")), "{wrong}");
    }
    assert!(env.now() - began < Duration::from_millis(500), "nothing would make it true");
    let now = api.get(&format!("{PODS}/p")).await.body["metadata"].clone();
    let right = json!({"preconditions": {"uid": now["uid"], "resourceVersion": now["resourceVersion"]}});
    let evicted = evict(&api, "p", right).await;
    assert_eq!(evicted.code, 201, "{}", evicted.text);
}

#[tokio::test(start_paused = true)]
async fn an_eviction_updates_the_status_of_the_pod_and_of_its_budget() {
    let (api, _) = api_with_rival().await;
    create_pod(&api, "p", "Running", "True").await;
    patch(&api, &format!("{PODS}/p"), json!({"metadata": {"finalizers": ["a/b"]}})).await;
    create_budget(&api, "p", 1).await;
    let before = (api.get(&format!("{PODS}/p")).await.text, api.get(&format!("{BUDGETS}/p")).await.text);
    assert_eq!(evict(&api, "p", json!({"dryRun": ["All"]})).await.code, 201);
    let after = (api.get(&format!("{PODS}/p")).await.text, api.get(&format!("{BUDGETS}/p")).await.text);
    assert_eq!(before, after, "a dry run leaves both as they were");

    assert_eq!(evict(&api, "p", json!({})).await.code, 201);
    let evicted = api.get(&format!("{PODS}/p")).await.body;
    let conditions = evicted["status"]["conditions"].as_array().unwrap();
    let target = conditions.iter().find(|condition| condition["type"] == "DisruptionTarget").unwrap();
    assert_eq!(
        (&target["status"], &target["reason"], &target["message"], &target["observedGeneration"]),
        (&json!("True"), &json!("EvictionByEvictionAPI"), &json!("Eviction API: evicting"), &json!(1))
    );
    let budget = api.get(&format!("{BUDGETS}/p")).await.body;
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert!(budget["status"]["disruptedPods"]["p"].is_string(), "{budget}");
    let again = evict(&api, "p", json!({"dryRun": ["All"]})).await;
    assert_eq!(again.code, 201, "it is on its way already, whatever the budget says: {}", again.text);
}
