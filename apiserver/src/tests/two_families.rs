//! Dual-stack Services through the API: their addresses are allocated, kept and released.

use crate::config::Config;
use crate::testing::Api;
use http::Method;
use serde_json::{Value, json};

const SERVICES: &str = "/api/v1/namespaces/default/services";

/// Starts a server whose cluster has both IP families.
async fn dual_stack() -> Api {
    let ranges = ["10.96.0.0/24", "fd00::/112"].map(|range| range.parse().unwrap());
    Api::with(Config { service_cluster_ip_range: ranges.to_vec(), ..Config::default() }).await
}

fn service(name: &str, spec: Value) -> Value {
    let mut service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    service["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    service
}

fn ips(service: &Value) -> Vec<&str> {
    service["spec"]["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

async fn is_reserved(api: &Api, address: &str) -> bool {
    api.get(&format!("/apis/networking.k8s.io/v1/ipaddresses/{address}")).await.code == 200
}

#[tokio::test(start_paused = true)]
async fn a_service_keeps_both_addresses_until_it_says_otherwise() {
    let api = dual_stack().await;
    let made = api.create(SERVICES, service("web", json!({"ipFamilyPolicy": "PreferDualStack"}))).await;
    let [first, second] = ips(&made)[..] else { panic!("{made}") };
    assert!(first.starts_with("10.96.0.") && second.starts_with("fd00::"), "{made}");
    assert_eq!((&made["spec"]["clusterIP"], &made["spec"]["ipFamilies"]), (&json!(first), &json!(["IPv4", "IPv6"])));
    let path = format!("{SERVICES}/web");
    // Updates of clients that send only one address, none, or no families.
    for spec in [
        json!({"clusterIP": first, "ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]}),
        json!({"ipFamilyPolicy": "PreferDualStack"}),
        json!({"clusterIP": first, "clusterIPs": [first, second]}),
    ] {
        let answer = api.ask(Method::PUT, &path, service("web", spec.clone()), &[]).await;
        assert_eq!((answer.code, ips(&answer.body)), (200, vec![first, second]), "{spec}: {}", answer.text);
        assert_eq!(answer.body["spec"]["ipFamilyPolicy"], "PreferDualStack", "{spec}");
    }
    let reduced = json!({"clusterIP": first, "clusterIPs": [first], "ipFamilies": ["IPv4", "IPv6"]});
    let answer = api.ask(Method::PUT, &path, service("web", reduced), &[]).await;
    let why = "must be 'SingleStack' to release the secondary cluster IP";
    assert!(answer.code == 422 && answer.message().contains(why), "{}", answer.text);
    assert!(is_reserved(&api, second).await);
    let single = json!({"clusterIP": first, "clusterIPs": [first, second], "ipFamilyPolicy": "SingleStack"});
    let answer = api.ask(Method::PUT, &path, service("web", single), &[]).await;
    assert_eq!((answer.code, ips(&answer.body)), (200, vec![first]), "{}", answer.text);
    assert_eq!(answer.body["spec"]["ipFamilies"], json!(["IPv4"]));
    assert!(!is_reserved(&api, second).await && is_reserved(&api, first).await);
    let required = json!({"ipFamilyPolicy": "RequireDualStack"});
    let answer = api.ask(Method::PUT, &path, service("web", required), &[]).await;
    let [same, third] = ips(&answer.body)[..] else { panic!("{}", answer.text) };
    assert!(same == first && is_reserved(&api, third).await, "{}", answer.text);
    let external = json!({"type": "ExternalName", "externalName": "a.example"});
    let answer = api.ask(Method::PUT, &path, service("web", external), &[]).await;
    assert_eq!((answer.code, &answer.body["spec"]["ipFamilies"]), (200, &Value::Null), "{}", answer.text);
    assert!(!is_reserved(&api, first).await && !is_reserved(&api, third).await);
}

#[tokio::test(start_paused = true)]
async fn addresses_are_asked_for_together_or_not_at_all() {
    let api = dual_stack().await;
    let both =
        |v4: &str, v6: &str| json!({"clusterIP": v4, "clusterIPs": [v4, v6], "ipFamilyPolicy": "RequireDualStack"});
    api.create(SERVICES, service("a", both("10.96.0.50", "fd00::50"))).await;
    for (spec, expected) in [
        (both("10.96.0.51", "fd00::50"), "failed to allocate IP fd00::50: provided IP is already allocated"),
        (
            both("10.96.0.51", "fd00:1::1"),
            "failed to allocate IP fd00:1::1: the provided IP (fd00:1::1) is not in the valid range. The range of valid IPs",
        ),
        (json!({"ipFamilies": ["IPv5"]}), "Unsupported value: \"IPv5\": supported values: \"IPv4\", \"IPv6\""),
        (both("10.96.0.51", "10.96.0.52"), "may specify no more than one IP for each IP family"),
    ] {
        let answer = api.post(SERVICES, service("b", spec.clone())).await;
        assert!(answer.code == 422 && answer.message().contains(expected), "{spec}: {}", answer.text);
        assert!(!is_reserved(&api, "10.96.0.51").await, "{spec}");
    }
    let tried = service("c", json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6"]}));
    let tried = api.post(&format!("{SERVICES}?dryRun=All"), tried).await;
    assert_eq!(ips(&tried.body), ["fd00::", "10.96.0.0"], "{}", tried.text);
    let held = api.get("/apis/networking.k8s.io/v1/ipaddresses").await.body;
    let names: Vec<&str> =
        held["items"].as_array().unwrap().iter().filter_map(|held| held["metadata"]["name"].as_str()).collect();
    assert_eq!(names, ["10.96.0.1", "10.96.0.50", "fd00::50"]);
    assert_eq!(held["items"][2]["metadata"]["labels"]["ipaddress.kubernetes.io/ip-family"], "IPv6");
}

#[tokio::test(start_paused = true)]
async fn headless_services_have_families_without_addresses() {
    let api = dual_stack().await;
    for (name, spec, families, policy) in [
        ("open", json!({"clusterIP": "None"}), json!(["IPv4", "IPv6"]), "RequireDualStack"),
        ("one", json!({"clusterIP": "None", "selector": {"a": "b"}}), json!(["IPv4"]), "SingleStack"),
        (
            "two",
            json!({"clusterIP": "None", "selector": {"a": "b"}, "ipFamilyPolicy": "PreferDualStack"}),
            json!(["IPv4", "IPv6"]),
            "PreferDualStack",
        ),
    ] {
        let made = api.create(SERVICES, service(name, spec)).await;
        let spec = &made["spec"];
        assert_eq!((&spec["ipFamilies"], &spec["ipFamilyPolicy"]), (&families, &json!(policy)), "{name}");
        assert_eq!(spec["clusterIPs"], json!(["None"]), "{name}");
    }
}
