//! Requests to the group, from a fleet that runs in virtual time.

use crate::config::Settings;
use crate::fleet::Fleet;
use axum::body::Body;
use client::Client;
use client_testing::FakeServer;
use component_base::env::Env;
use component_base::kubeconfig::Connection;
use component_base::network::Network;
use http::Request;
use metrics_server::routes::routes;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tower::ServiceExt;

const AUTHORITY: &str = "apiserver:6443";

async fn fleet() -> Arc<Fleet> {
    let env = Env::simulated(5);
    let server = FakeServer::new(&env);
    if let Network::InProcess(registry) = env.network() {
        registry.register(AUTHORITY, server.service());
    }
    let connection = Connection { server: format!("https://{AUTHORITY}"), ..Connection::default() };
    let client = Client::connect(&env, &connection, "kubelet-sim").unwrap();
    let (fleet, informers) = Fleet::new(client.in_env(&env), Settings { nodes: 2, ..Settings::default() }, env.clone());
    let running = fleet.clone();
    env.spawn(async move { running.start(informers).await });
    env.sleep(Duration::from_secs(1)).await;
    for (number, name) in ["node-0", "node-1"].into_iter().enumerate() {
        let mut node = server.get("nodes", name).unwrap();
        node["spec"]["podCIDR"] = json!(format!("10.244.{number}.0/24"));
        server.put("nodes", node);
    }
    for (name, namespace, node, cpu) in [("web", "shop", "node-0", "250m"), ("log", "ops", "node-1", "1")] {
        let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}});
        let metadata = json!({"name": name, "namespace": namespace, "uid": name, "labels": {"app": name}});
        server.put("pods", json!({"metadata": metadata, "spec": {"nodeName": node, "containers": [container]}}));
    }
    env.sleep(Duration::from_secs(5)).await;
    fleet
}

async fn get(fleet: &Arc<Fleet>, path: &str, accept: &str) -> (u16, Value) {
    let path = format!("/apis/metrics.k8s.io/v1beta1{path}");
    let request = Request::get(path).header("accept", accept).body(Body::empty()).unwrap();
    let answer = routes(fleet.clone()).oneshot(request).await.unwrap();
    let code = answer.status().as_u16();
    let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    (code, serde_json::from_slice(&body).unwrap())
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn usage_is_listed_and_selected() {
    let fleet = fleet().await;
    let (code, nodes) = get(&fleet, "/nodes", "application/json").await;
    assert_eq!((code, &nodes["kind"], names(&nodes)), (200, &json!("NodeMetricsList"), vec!["node-0", "node-1"]));
    assert_eq!(nodes["items"][0]["usage"], json!({"cpu": "300000000n", "memory": "327680Ki"}), "with its daemons");
    let (_, pods) = get(&fleet, "/pods", "application/json").await;
    assert_eq!(names(&pods), ["log", "web"], "by namespace");
    let web = &pods["items"][1];
    assert_eq!(web["containers"], json!([{"name": "c", "usage": {"cpu": "250000000n", "memory": "65536Ki"}}]));
    assert_eq!((&web["window"], &web["metadata"]["labels"]), (&json!("15s"), &json!({"app": "web"})));
    for (path, expected) in [
        ("/namespaces/shop/pods", &["web"][..]),
        ("/pods?labelSelector=app%20in%20(log)", &["log"]),
        ("/pods?fieldSelector=metadata.namespace%3Dshop", &["web"]),
        ("/nodes?fieldSelector=metadata.name%3Dnode-1", &["node-1"]),
        ("/namespaces/none/pods", &[]),
    ] {
        assert_eq!(names(&get(&fleet, path, "application/json").await.1), expected, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_object_is_found_by_name_or_refused() {
    let fleet = fleet().await;
    let (code, pod) = get(&fleet, "/namespaces/shop/pods/web", "application/json").await;
    assert_eq!((code, &pod["kind"], &pod["apiVersion"]), (200, &json!("PodMetrics"), &json!("metrics.k8s.io/v1beta1")));
    let (code, refused) = get(&fleet, "/nodes/node-9", "application/json").await;
    assert_eq!((&refused["kind"], &refused["apiVersion"]), (&json!("Status"), &json!("v1")));
    assert_eq!((code, &refused["message"]), (404, &json!("nodemetrics.metrics.k8s.io \"node-9\" not found")));
    let (code, refused) = get(&fleet, "/namespaces/shop/pods/none", "application/json").await;
    assert_eq!((code, &refused["message"]), (404, &json!("podmetrics.metrics.k8s.io \"shop/none\" not found")));
    let (code, refused) = get(&fleet, "/pods?labelSelector=a%20b", "application/json").await;
    assert_eq!((code, &refused["reason"]), (400, &json!("BadRequest")));
}

#[tokio::test(start_paused = true)]
async fn usage_cannot_be_watched() {
    let fleet = fleet().await;
    for (path, code) in
        [("/pods?watch=true", 405), ("/nodes?watch=", 405), ("/nodes?watch", 405), ("/pods?watch=0", 200)]
    {
        let (found, refused) = get(&fleet, path, "application/json").await;
        assert_eq!(found, code, "{path}");
        if code == 405 {
            let resource = if path.starts_with("/pods") { "pods" } else { "nodes" };
            let expected = format!("watch is not supported on resources of kind \"{resource}.metrics.k8s.io\"");
            assert_eq!(refused["message"], expected, "{path}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn kubectl_gets_a_table() {
    let fleet = fleet().await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let (_, table) = get(&fleet, "/nodes/node-1", accept).await;
    assert_eq!(table["rows"][0]["cells"], json!(["node-1", "1050000000n", "327680Ki", "15s"]));
    let columns: Vec<&Value> = table["columnDefinitions"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(columns, ["Name", "cpu", "memory", "Window"]);
}
