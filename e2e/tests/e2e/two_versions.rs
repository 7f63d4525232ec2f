//! Tests resources with two served versions: an object that is written through one is read and watched through the
//! other.

use client::watch::WatchEvent;
use client::{Client, DeleteOptions, ListOptions};
use e2e::minimal;
use proto::Gvr;
use proto::resources::{Catalogue, Target};
use serde_json::Value;
use simulator::Simulation;

/// Namespace of the namespaced objects.
const NAMESPACE: &str = "default";

fn object(target: &Target) -> Value {
    let served = target.served();
    let name = format!("life{}", served.version);
    minimal::in_namespace(served, &name, NAMESPACE)
}

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
                check_other_version(&client, written, read).await;
            }
        }
    });
}

async fn check_other_version(client: &Client, written: &Gvr, read: &Gvr) {
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
