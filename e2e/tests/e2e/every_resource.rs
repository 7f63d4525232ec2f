//! Every row of the resource table creates, lists, watches, patches and deletes a minimal object.

use client::watch::WatchEvent;
use client::{Client, DeleteOptions, ListOptions, Patch, PatchOptions};
use e2e::minimal;
use e2e::simulation::Simulation;
use proto::Gvr;
use proto::resources::{Catalogue, Target, Verb};
use serde_json::{Value, json};

/// Namespace of the namespaced objects.
const NAMESPACE: &str = "default";

#[test]
fn every_stored_resource_lives_a_whole_life() {
    let failures = Simulation::apiserver_alone(1, async |simulation| {
        let client = simulation.admin();
        // Pods run under it; the controller that makes it does not run here.
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        client.dynamic(&Gvr::new("", "v1", "serviceaccounts"), NAMESPACE).create(&account).await.unwrap();
        let mut failures = Vec::new();
        for target in stored() {
            if let Err(why) = life(&client, &target).await {
                failures.push(format!("{}: {why}", target.gvr()));
            }
        }
        failures
    });
    assert!(failures.is_empty(), "{} resources failed:\n{}", failures.len(), failures.join("\n"));
}

/// Every served version of every row that can be created and listed.
fn stored() -> Vec<Target> {
    let mut found = Vec::new();
    for row in Catalogue::builtin().rows() {
        for served in 0..row.served.len() {
            let target = Target { row: row.clone(), served };
            if target.served().has_verb(Verb::Create) && target.served().has_verb(Verb::List) {
                found.push(target);
            }
        }
    }
    assert!(found.len() > 55, "the table has lost its rows: {}", found.len());
    found
}

fn object(target: &Target) -> Value {
    let served = target.served();
    let name = format!("life{}", served.version);
    if served.kind == "Event" { minimal::event(served, &name, NAMESPACE) } else { minimal::object(served, &name) }
}

async fn life(client: &Client, target: &Target) -> Result<(), String> {
    let namespace = if target.row.is_namespaced() { NAMESPACE } else { "" };
    let api = client.dynamic(&target.gvr(), namespace);
    let failed = |step: &'static str| move |error: client::Error| format!("{step}: {error}");
    let object = object(target);
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();

    let before = api.list(&ListOptions::default()).await.map_err(failed("list"))?;
    let watched = ListOptions {
        resource_version: before.metadata.resource_version,
        field_selector: format!("metadata.name={name}"),
        ..ListOptions::default()
    };
    let mut watch = api.watch(&watched).await.map_err(failed("watch"))?;

    let created = api.create(&object).await.map_err(failed("create"))?;
    if created["kind"] != object["kind"] || created["apiVersion"] != object["apiVersion"] {
        return Err(format!("create answered {} {}", created["apiVersion"], created["kind"]));
    }
    let listed = api.list(&ListOptions::default()).await.map_err(failed("list"))?;
    if !listed.items.iter().any(|item| item["metadata"]["name"] == name.as_str()) {
        return Err("the list lacks it".into());
    }
    let patch = Patch::Merge(json!({"metadata": {"labels": {"touched": "yes"}}}));
    let patched = api.patch(&name, &patch, &PatchOptions::default()).await.map_err(failed("patch"))?;
    if patched["metadata"]["labels"]["touched"] != "yes" {
        return Err("the patch changed nothing".into());
    }
    delete(client, target, &name).await?;
    match api.get(&name).await {
        Err(error) if error.is_not_found() => {}
        other => return Err(format!("after its deletion: {other:?}")),
    }
    let mut seen = Vec::new();
    while seen.last() != Some(&"DELETED") {
        match watch.next().await {
            Some(Ok(WatchEvent::Added(_))) => seen.push("ADDED"),
            Some(Ok(WatchEvent::Modified(_))) => seen.push("MODIFIED"),
            Some(Ok(WatchEvent::Deleted(_))) => seen.push("DELETED"),
            Some(Ok(WatchEvent::Bookmark { .. })) => {}
            other => return Err(format!("the watch saw {seen:?}, then {other:?}")),
        }
    }
    if seen.first() != Some(&"ADDED") || !seen.contains(&"MODIFIED") {
        return Err(format!("the watch saw {seen:?}"));
    }
    Ok(())
}

/// Deletes and, as no controller runs here, does what controllers do about finalizers.
async fn delete(client: &Client, target: &Target, name: &str) -> Result<(), String> {
    let namespace = if target.row.is_namespaced() { NAMESPACE } else { "" };
    let api = client.dynamic(&target.gvr(), namespace);
    let text = |error: client::Error| format!("delete: {error}");
    api.delete(name, &DeleteOptions::default()).await.map_err(text)?;
    let Ok(mut left) = api.get(name).await else { return Ok(()) };
    if left["metadata"]["deletionTimestamp"].is_null() {
        return Err("deleted, but not marked so".into());
    }
    if target.served().kind == "Namespace" {
        left["spec"]["finalizers"] = json!([]);
        api.update_subresource(name, "finalize", &left).await.map_err(text)?;
        return Ok(());
    }
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch(name, &patch, &PatchOptions::default()).await.map_err(text)?;
    Ok(())
}

/// One object, two served versions: written through either, it is read and watched through the other.
#[test]
fn two_versions_show_one_object() {
    let pairs = [
        (
            Gvr::new("autoscaling", "v1", "horizontalpodautoscalers"),
            Gvr::new("autoscaling", "v2", "horizontalpodautoscalers"),
        ),
        (Gvr::new("", "v1", "events"), Gvr::new("events.k8s.io", "v1", "events")),
    ];
    Simulation::apiserver_alone(1, async |simulation| {
        let client = simulation.admin();
        for (a, b) in &pairs {
            for (written, read) in [(a, b), (b, a)] {
                shown_through_the_other(&client, written, read).await;
            }
        }
    });
}

async fn shown_through_the_other(client: &Client, written: &Gvr, read: &Gvr) {
    let catalogue = Catalogue::builtin();
    let target = catalogue.by_gvr(written).expect("the table serves it");
    let reader = client.dynamic(read, NAMESPACE);
    let before = reader.list(&ListOptions::default()).await.unwrap();
    let from = ListOptions { resource_version: before.metadata.resource_version, ..ListOptions::default() };
    let mut watch = reader.watch(&from).await.unwrap();
    let object = object(&target);
    let name = object["metadata"]["name"].as_str().unwrap();
    client.dynamic(written, NAMESPACE).create(&object).await.unwrap();

    let got = reader.get(name).await.unwrap();
    assert_eq!(got["apiVersion"], read.api_version());
    let Some(Ok(WatchEvent::Added(bytes))) = watch.next().await else { panic!("the watch of {read} saw nothing") };
    let seen: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(seen, got);
    let value = if target.served().kind == "Event" { &got["reason"] } else { &got["spec"]["maxReplicas"] };
    assert!(!value.is_null(), "{got}");
    reader.delete(name, &DeleteOptions::default()).await.unwrap();
}
