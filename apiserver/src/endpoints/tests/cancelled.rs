//! Tests of the release of IP addresses and node ports: when clients disconnect during a write, and when a release fails.

use super::deletions::api_with_rival;
use crate::testing::Api;
use http::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;
use storage::fault::{Fault, Faults};
use storage::{Change, RangeRequest, Storage};
use strategy::allocation::NODE_PORTS;

const SERVICES: &str = "/api/v1/namespaces/default/services";
/// A time before the repair loop releases anything.
const SOON: Duration = Duration::from_secs(30);

/// Returns the reserved addresses and node ports, and those that Services of the default namespace use.
async fn reserved_and_used(api: &Api, store: &Fault) -> (BTreeSet<String>, BTreeSet<String>) {
    let addresses = api.get("/apis/networking.k8s.io/v1/ipaddresses").await.body;
    let addresses = addresses["items"].as_array().unwrap().iter();
    let mut reserved: BTreeSet<String> =
        addresses.map(|address| address["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    let ports = store.range(RangeRequest::prefix(NODE_PORTS)).await.unwrap().entries;
    reserved.extend(ports.iter().map(|entry| entry.key.rsplit('/').next().unwrap().to_owned()));
    let services = api.get(SERVICES).await.body;
    let mut used = BTreeSet::new();
    for service in services["items"].as_array().unwrap() {
        used.extend(service["spec"]["clusterIP"].as_str().map(str::to_owned));
        let ports = service["spec"]["ports"].as_array().unwrap();
        used.extend(ports.iter().filter_map(|port| port["nodePort"].as_u64()).map(|port| port.to_string()));
    }
    (reserved, used)
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_leaks_no_address_and_no_port() {
    let (api, store) = api_with_rival().await;
    let slow = Faults { delay: 1.0, longest_delay: Duration::from_millis(20), ..Faults::default() };
    let ports = json!([{"port": 80}]);
    let mut cut = 0;
    for number in 0..60_u64 {
        let name = format!("s{number}");
        let service = json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": ports}});
        let path = format!("{SERVICES}/{name}");
        let requests: [(Method, &str, Value); 3] = [
            (Method::POST, SERVICES, service),
            // A Service of this type releases its address and its ports.
            (
                Method::PATCH,
                &path,
                json!({"spec": {"type": "ExternalName", "externalName": "a.b", "clusterIP": null,
                "clusterIPs": null, "ports": [{"port": 80, "nodePort": null}]}}),
            ),
            (Method::DELETE, &path, json!({})),
        ];
        for (method, path, body) in requests.into_iter().take(1 + number as usize % 3) {
            store.set(slow);
            let merge = ("content-type", "application/merge-patch+json");
            let headers: &[(&str, &str)] = if method == Method::PATCH { &[merge] } else { &[] };
            let client_timeout = Duration::from_millis(number);
            cut += usize::from(
                api.server.server.env.timeout(client_timeout, api.ask(method, path, body, headers)).await.is_err(),
            );
            store.set(Faults::default());
            api.server.server.env.sleep(Duration::from_secs(1)).await;
        }
    }
    assert!(cut > 20, "only {cut} requests were cut");
    api.server.server.env.sleep(SOON).await;
    let (reserved, used) = reserved_and_used(&api, &store).await;
    assert_eq!(reserved.difference(&used).collect::<Vec<_>>(), Vec::<&String>::new(), "reserved, and used by nobody");
    assert!(used.difference(&reserved).next().is_none(), "{used:?} {reserved:?}");
}

/// The Service is written or deleted, so the request succeeds even if a port cannot be released yet.
#[tokio::test(start_paused = true)]
async fn a_failed_release_does_not_fail_the_request() {
    let (api, store) = api_with_rival().await;
    let ports = json!([{"port": 80}]);
    let service = json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": ports}});
    api.create(SERVICES, service).await;
    store.lose(|write| write.key.starts_with(NODE_PORTS) && write.change == Change::Delete);
    let path = format!("{SERVICES}/s");
    let smaller = json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80, "nodePort": null}]}});
    let merge = ("content-type", "application/merge-patch+json");
    let changed = api.ask(Method::PATCH, &path, smaller, &[merge]).await;
    assert_eq!((changed.code, &changed.body["spec"]["type"]), (200, &json!("ClusterIP")), "{}", changed.text);
    let bigger = json!({"spec": {"type": "NodePort"}});
    assert_eq!(api.ask(Method::PATCH, &path, bigger, &[merge]).await.code, 200);
    let deleted = api.ask(Method::DELETE, &path, "", &[]).await;
    assert_eq!(deleted.code, 200, "{}", deleted.text);
    assert_eq!(api.get(&path).await.code, 404);
}
