//! Tests in virtual time that a changed script takes effect, and a bad one does not.

use super::*;
use crate::scheduler::Scheduler;
use client_testing::FakeServer;
use component_base::env::Env;
use scheduler_plugins::fixture;
use scheduling_framework::configuration::profile::ProfileConfiguration;
use serde_json::{Value, json};
use std::time::Duration;

fn put(server: &FakeServer, resource: &str, kind: &str, mut object: Value) {
    object["apiVersion"] = json!("v1");
    object["kind"] = json!(kind);
    server.put(resource, object);
}

/// Returns the message of a pod that was not scheduled.
fn message(server: &FakeServer, pod: &str) -> String {
    let pods = server.list("pods");
    let pod = pods.iter().find(|listed| listed["metadata"]["name"] == pod).unwrap();
    pod["status"]["conditions"][0]["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_changed_script_is_read_and_a_bad_one_is_not() {
    let (env, folder) = (Env::simulated(1), tempfile::tempdir().unwrap());
    let (server, path) = (FakeServer::new(&env), folder.path().join("policy.luau"));
    let write =
        |reason: &str| std::fs::write(&path, format!("function filter(pod, node) return '{reason}' end")).unwrap();
    write("one");
    let profile = json!({
        "plugins": {"multiPoint": {"enabled": [{"name": "Script"}]}},
        "pluginConfig": [{"name": "Script", "args": {"path": path}}],
        "schedulerName": "default-scheduler",
    });
    let profiles = vec![ProfileConfiguration::read("profiles[0]", &profile, &mut Vec::new())];
    let configuration = Arc::new(Configuration { profiles, ..Configuration::default() });
    put(&server, "nodes", "Node", serde_json::to_value(&*fixture::node("n1", "a", json!({}))).unwrap());
    put(&server, "pods", "Pod", fixture::pod("web", "1", json!({})));

    let client = Client::from_service(&env, server.service(), "test");
    let (informers, register) = (Informers::new(&client), Arc::new(|_: &Handle<'_>, _: &mut _| {}) as Register);
    let (sender, receiver) = watch::channel(configuration.clone());
    let scheduler = Scheduler::new(&informers, &configuration, &register, None, None).unwrap();
    informers.start();
    assert!(informers.synced().await);
    env.spawn(scheduler.run(receiver));
    env.spawn(follow_scripts(client, register, sender));
    env.sleep(Duration::from_secs(5)).await;
    assert_eq!(message(&server, "web").split(". ").next(), Some("0/1 nodes are available: 1 one"));

    // A waiting pod is judged anew without any other event.
    write("two");
    env.sleep(Duration::from_secs(15)).await;
    assert_eq!(message(&server, "web").split(". ").next(), Some("0/1 nodes are available: 1 two"));

    for bad in ["function filter(", "filter = 1"] {
        std::fs::write(&path, bad).unwrap();
        env.sleep(Duration::from_secs(5)).await;
    }
    put(&server, "pods", "Pod", fixture::pod("late", "1", json!({})));
    env.sleep(Duration::from_secs(5)).await;
    assert_eq!(message(&server, "late").split(". ").next(), Some("0/1 nodes are available: 1 two"));

    write("three");
    env.sleep(Duration::from_secs(15)).await;
    for pod in ["web", "late"] {
        assert_eq!(message(&server, pod).split(". ").next(), Some("0/1 nodes are available: 1 three"));
    }
}
