//! Addresses of Services through the API: they come from all ServiceCIDRs that are ready.

use crate::config::{Config, StoreKind};
use crate::testing::Api;
use component_base::env::Env;
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;
use storage::Storage;
use storage::memory::Memory;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const SERVICE_CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";

fn service(name: &str, ip: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"clusterIP": ip, "ports": [{"port": 80}]}})
}

#[tokio::test(start_paused = true)]
async fn a_service_cidr_extends_the_range_while_it_is_ready() {
    let range = "10.96.0.0/29".parse().unwrap();
    let api = Api::with(Config { service_cluster_ip_range: vec![range], ..Config::default() }).await;
    for number in 2..=6 {
        let made = api.create(SERVICES, service(&format!("web-{number}"), "")).await;
        assert!(made["spec"]["clusterIP"].as_str().unwrap().starts_with("10.96.0."), "{made}");
    }
    let full = api.post(SERVICES, service("one-more", "")).await;
    let expected = "Internal error occurred: failed to allocate a serviceIP: range is full";
    assert_eq!((full.code, full.message()), (500, expected));

    let more = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.9.0.0/28"]}});
    let more = api.create(SERVICE_CIDRS, more).await;
    // A consistent read waits until the server's cache has the object.
    api.get(SERVICE_CIDRS).await;
    let made = api.create(SERVICES, service("one-more", "")).await;
    let address = made["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert!(address.starts_with("10.9.0."), "{made}");
    let reserved = api.get(&format!("/apis/networking.k8s.io/v1/ipaddresses/{address}")).await.body;
    let parent = json!({"group": "", "resource": "services", "namespace": "default", "name": "one-more"});
    let mut found = reserved["spec"]["parentRef"].clone();
    found.as_object_mut().unwrap().entry("group").or_insert(json!(""));
    assert_eq!(found, parent, "{reserved}");
    let chosen = if address == "10.9.0.9" { "10.9.0.10" } else { "10.9.0.9" };
    api.create(SERVICES, service("chosen", chosen)).await;
    let far = api.post(SERVICES, service("far", "10.8.0.9")).await;
    let why = "failed to allocate IP 10.8.0.9: the provided network does not match the current range";
    assert!(far.code == 422 && far.message().contains(why), "{}", far.text);

    let mut unready = more;
    unready["status"] = json!({"conditions": [{
        "type": "Ready", "status": "False", "reason": "Terminating", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]});
    let answer = api.ask(Method::PUT, &format!("{SERVICE_CIDRS}/more/status"), unready, &[]).await;
    assert_eq!(answer.code, 200, "{}", answer.text);
    api.get(SERVICE_CIDRS).await;
    assert_eq!(api.post(SERVICES, service("too-late", "")).await.message(), expected);
    assert_eq!(api.post(SERVICES, service("too-late", "10.9.0.13")).await.code, 422);
    // Services that have an address of the range keep it.
    let mut labelled = made;
    labelled["metadata"]["labels"] = json!({"a": "b"});
    let answer = api.ask(Method::PUT, &format!("{SERVICES}/one-more"), labelled, &[]).await;
    assert_eq!((answer.code, &answer.body["spec"]["clusterIP"]), (200, &json!(address)), "{}", answer.text);
}

/// Stores Services as they may be found after the flags have changed, or after a backup was restored.
#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_addresses_and_ports_is_an_event_of_the_service() {
    let env = Env::simulated(1);
    let storage = Memory::new(&env);
    let config = Config {
        store: Some(StoreKind::Memory),
        service_cluster_ip_range: vec!["10.96.0.0/24".parse().unwrap()],
        ..Config::default()
    };
    let api = Api::on(&env, storage.clone(), config).await;
    let ports = json!({"type": "NodePort", "clusterIP": "10.96.0.9", "ports": [{"port": 80, "nodePort": 30009}]});
    let first = api.create(SERVICES, json!({"metadata": {"name": "first"}, "spec": ports})).await;
    for (name, ip, port) in [("far", "10.8.0.9", 40000), ("second", "10.96.0.9", 30009)] {
        let mut object = first.clone();
        object["metadata"]["name"] = json!(name);
        object["metadata"]["uid"] = json!(format!("00000000-0000-4000-8000-00000000{port}0"));
        object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        object["spec"]["clusterIP"] = json!(ip);
        object["spec"]["clusterIPs"] = json!([ip]);
        object["spec"]["ports"][0]["nodePort"] = json!(port);
        let key = format!("/registry/services/specs/default/{name}");
        storage.create(&key, object.to_string().into(), None).await.unwrap();
    }
    let expected = [
        "far ClusterIPOutOfRange Cluster IP [IPv4]: 10.8.0.9 is not within any configured Service CIDR; please recreate service",
        "far PortOutOfRange Port 40000 is not within the port range 30000-32767; please recreate service",
        "second ClusterIPAlreadyAllocated Cluster IP [IPv4]:10.96.0.9 was assigned to multiple services; please recreate service",
        "second PortAlreadyAllocated Port 30009 was assigned to multiple services; please recreate service",
    ];
    let lines = async || {
        let events = api.get("/api/v1/namespaces/default/events").await.body;
        let line = |event: &Value| {
            let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
            let about = text(&event["involvedObject"]["name"]);
            format!("{about} {} {}", text(&event["reason"]), text(&event["message"]))
        };
        let mut lines: Vec<String> = events["items"].as_array().unwrap().iter().map(line).collect();
        lines.sort();
        lines
    };
    for _ in 0..3 {
        env.sleep(Duration::from_secs(181)).await;
        assert_eq!(lines().await, expected, "each is recorded once");
    }
}
