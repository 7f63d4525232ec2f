//! Addresses of Services through the API: they come from all ServiceCIDRs that are ready.

use crate::config::Config;
use crate::testing::Api;
use http::Method;
use serde_json::{Value, json};

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
