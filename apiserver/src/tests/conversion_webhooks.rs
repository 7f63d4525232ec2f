//! Custom resources whose versions a webhook converts, through the API. The webhook is a service in this process.
//!
//! Version 1 has `spec.address`, version 2 has `spec.host` and `spec.port`.

use crate::testing::Api;
use axum::body::{Body, to_bytes};
use component_base::network::{HttpService, Network, Registry};
use http::{Method, Request, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const V1: &str = "/apis/a.example/v1/namespaces/default/hosts";
const V2: &str = "/apis/a.example/v2/namespaces/default/hosts";
const HOOK: &str = "hooks.test:443";
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");
const APPLY: (&str, &str) = ("content-type", "application/apply-patch+yaml");

/// The webhook. Records the number of objects in each review.
#[derive(Clone, Default)]
struct Hook(Arc<Mutex<Vec<usize>>>);

impl Hook {
    fn service(&self, answer: fn(&Value) -> Value) -> HttpService {
        let asked = self.0.clone();
        HttpService::new(tower::service_fn(move |request: Request<Body>| {
            let asked = asked.clone();
            async move {
                assert_eq!(request.uri().to_string(), "/convert?timeout=30s");
                let bytes = to_bytes(request.into_body(), 1 << 20).await.unwrap();
                let review: Value = serde_json::from_slice(&bytes).unwrap();
                asked.lock().push(review["request"]["objects"].as_array().unwrap().len());
                Ok::<_, Infallible>(Response::new(Body::from(answer(&review).to_string())))
            }
        }))
    }

    fn take(&self) -> Vec<usize> {
        std::mem::take(&mut self.0.lock())
    }
}

fn review_answer(review: &Value, result: Value, objects: Vec<Value>) -> Value {
    json!({
        "apiVersion": review["apiVersion"], "kind": "ConversionReview",
        "response": {"uid": review["request"]["uid"], "result": result, "convertedObjects": objects},
    })
}

fn converting(review: &Value) -> Value {
    let to = review["request"]["desiredAPIVersion"].as_str().unwrap();
    let objects = review["request"]["objects"].as_array().unwrap();
    let objects = objects.iter().map(|object| converted(object.clone(), to)).collect();
    review_answer(review, json!({"status": "Success"}), objects)
}

fn converted(mut object: Value, to: &str) -> Value {
    object["apiVersion"] = json!(to);
    let spec = object["spec"].take();
    let text = |key: &str| spec[key].as_str().map(str::to_owned);
    object["spec"] = match to {
        "a.example/v2" => {
            let address = text("address").unwrap_or_default();
            let (host, port) = address.split_once(':').unwrap_or((&address, ""));
            json!({"host": host, "port": port})
        }
        _ => json!({"address": format!("{}:{}", text("host").unwrap_or_default(), text("port").unwrap_or_default())}),
    };
    object
}

fn refusing(review: &Value) -> Value {
    review_answer(review, json!({"status": "Failed", "message": "not today"}), vec![])
}

fn definition(storage: &str) -> Value {
    let version = |name: &str, fields: &[&str]| {
        let fields: serde_json::Map<String, Value> =
            fields.iter().map(|field| ((*field).to_owned(), json!({"type": "string"}))).collect();
        json!({
            "name": name, "served": true, "storage": name == storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": fields}}}},
            "additionalPrinterColumns": [{"name": "Host", "type": "string", "jsonPath": ".spec.host"}],
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "hosts.a.example"},
        "spec": {
            "group": "a.example", "scope": "Namespaced", "names": {"plural": "hosts", "kind": "Host"},
            "versions": [version("v1", &["address"]), version("v2", &["host", "port"])],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://hooks.test/convert"}}},
        },
    })
}

fn host(version: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("a.example/{version}"), "kind": "Host", "metadata": {"name": name}, "spec": spec})
}

struct Hosts {
    api: Api,
    network: Registry,
    hook: Hook,
}

impl Hosts {
    async fn start() -> Self {
        let api = Api::start().await;
        let Network::InProcess(network) = api.server.server.env.network().clone() else { panic!("it is simulated") };
        let hosts = Self { api, network, hook: Hook::default() };
        hosts.answer(converting);
        hosts.api.create(DEFINITIONS, definition("v1")).await;
        hosts.api.until(V2, |answer| answer.code == 200).await;
        hosts
    }

    fn answer(&self, answer: fn(&Value) -> Value) {
        self.network.register(HOOK, self.hook.service(answer));
    }

    async fn spec(&self, path: &str) -> Value {
        let answer = self.api.get(path).await;
        assert_eq!(answer.code, 200, "{}", answer.text);
        answer.body["spec"].clone()
    }
}

#[tokio::test(start_paused = true)]
async fn every_version_is_read_and_written_as_its_own() {
    let hosts = Hosts::start().await;
    let api = &hosts.api;
    api.create(V1, host("v1", "one", json!({"address": "a:1"}))).await;
    assert_eq!(hosts.hook.take(), [0; 0], "the stored version needs no conversion");
    let made = api.create(V2, host("v2", "two", json!({"host": "b", "port": "2", "odd": "x"}))).await;
    assert_eq!((&made["apiVersion"], &made["spec"]), (&json!("a.example/v2"), &json!({"host": "b", "port": "2"})));
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(hosts.spec(&format!("{V1}/two")).await, json!({"address": "b:2"}));
    assert_eq!(hosts.spec(&format!("{V2}/one")).await, json!({"host": "a", "port": "1"}));
    hosts.hook.take();
    let list = api.get(V2).await.body;
    assert_eq!(list["items"][0]["spec"]["host"], "a");
    assert_eq!(hosts.hook.take(), [2], "a list is one review");
    let table = api.get_as(V2, "application/json;as=Table;v=v1;g=meta.k8s.io").await.body;
    assert_eq!(table["rows"][1]["cells"], json!(["two", "b"]));

    let patched = api.ask(Method::PATCH, &format!("{V2}/one"), json!({"spec": {"port": "9"}}), &[MERGE]).await;
    assert_eq!((patched.code, &patched.body["metadata"]["generation"]), (200, &json!(2)), "{}", patched.text);
    assert_eq!(hosts.spec(&format!("{V1}/one")).await, json!({"address": "a:9"}));
    let same = api.ask(Method::PATCH, &format!("{V2}/one"), json!({"spec": {"port": "9"}}), &[MERGE]).await.body;
    assert_eq!(same["metadata"]["resourceVersion"], patched.body["metadata"]["resourceVersion"]);
    assert_eq!(api.ask(Method::DELETE, &format!("{V2}/one"), "", &[]).await.code, 200);
    assert_eq!(api.get(&format!("{V1}/one")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_watch_shows_its_own_version() {
    let hosts = Hosts::start().await;
    let revision = hosts.api.get(V1).await.body["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    hosts.api.create(V1, host("v1", "one", json!({"address": "a:1"}))).await;
    hosts.api.ask(Method::DELETE, &format!("{V1}/one"), "", &[]).await;
    let path = format!("{V2}?watch=1&timeoutSeconds=1&resourceVersion={revision}");
    let watched = hosts.api.get(&path).await;
    let events: Vec<Value> = watched.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown: Vec<_> = events.iter().map(|event| (&event["type"], &event["object"]["spec"])).collect();
    let spec = json!({"host": "a", "port": "1"});
    assert_eq!(shown, [(&json!("ADDED"), &spec), (&json!("DELETED"), &spec)]);
    // A second watch reuses the objects that were converted for the first.
    hosts.hook.take();
    hosts.api.get(&path).await;
    assert_eq!(hosts.hook.take(), [0; 0]);
    hosts.answer(refusing);
    let metadata = hosts.api.get(&format!("{V2}?watch=1&timeoutSeconds=1&resourceVersion=0")).await;
    assert_eq!(metadata.text, "", "there is nothing to be converted");
    hosts.api.create(V1, host("v1", "two", json!({"address": "b:2"}))).await;
    let watched =
        hosts.api.until(&format!("{V2}?watch=1&timeoutSeconds=1&resourceVersion=0"), |a| !a.text.is_empty()).await;
    let event: Value = serde_json::from_str(watched.text.lines().next().unwrap()).unwrap();
    let message = "conversion webhook for a.example/v1, Kind=Host failed: not today";
    assert_eq!((&event["type"], &event["object"]["message"]), (&json!("ERROR"), &json!(message)));
}

#[tokio::test(start_paused = true)]
async fn appliers_of_both_versions_know_of_each_other() {
    let hosts = Hosts::start().await;
    let apply = |path: &'static str, manager: &str, body: Value, force: bool| {
        let path = format!("{path}/h?fieldManager={manager}&force={force}");
        let api = &hosts.api;
        async move { api.ask(Method::PATCH, &path, body, &[APPLY]).await }
    };
    let first = apply(V2, "ann", host("v2", "h", json!({"host": "a", "port": "1"})), false).await;
    assert_eq!(first.code, 201, "{}", first.text);
    let conflict = apply(V1, "bob", host("v1", "h", json!({"address": "a:2"})), false).await;
    let message = "Apply failed with 1 conflict: conflict with \"ann\": .spec.port";
    assert_eq!((conflict.code, conflict.message()), (409, message), "{}", conflict.text);
    let forced = apply(V1, "bob", host("v1", "h", json!({"address": "a:2"})), true).await;
    assert_eq!((forced.code, &forced.body["spec"]), (200, &json!({"address": "a:2"})), "{}", forced.text);
    let fields = forced.body["metadata"]["managedFields"].as_array().unwrap().clone();
    let of = |manager: &str| fields.iter().find(|entry| entry["manager"] == manager).unwrap().clone();
    assert_eq!(of("ann")["fieldsV1"], json!({"f:spec": {"f:host": {}}}));
    assert_eq!((&of("ann")["apiVersion"], &of("bob")["apiVersion"]), (&json!("a.example/v2"), &json!("a.example/v1")));
    let again = apply(V1, "bob", host("v1", "h", json!({"address": "a:2"})), false).await.body;
    assert_eq!(again["metadata"]["resourceVersion"], forced.body["metadata"]["resourceVersion"]);
}

#[tokio::test(start_paused = true)]
async fn another_storage_version_takes_over_with_every_write() {
    let hosts = Hosts::start().await;
    let api = &hosts.api;
    api.create(V1, host("v1", "one", json!({"address": "a:1"}))).await;
    let path = format!("{DEFINITIONS}/hosts.a.example");
    let patch = json!({"spec": definition("v2")["spec"]});
    assert_eq!(api.ask(Method::PATCH, &path, patch, &[MERGE]).await.code, 200);
    // Now objects that are stored in the new version are read in it without conversion.
    let store = &api.server.server.storage;
    let stored = async || store.get("/registry/a.example/hosts/default/one").await.unwrap().entry.unwrap().value;
    assert!(stored().await.starts_with(br#"{"apiVersion":"a.example/v1""#));
    let listed = hosts.api.until(&path, |answer| answer.body["status"]["storedVersions"] == json!(["v1", "v2"])).await;
    assert_eq!(listed.code, 200);
    let is_new = || {
        let catalogue = api.server.server.registry.catalogue.load();
        let hosts = catalogue.by_group_resource("a.example", "hosts");
        hosts.is_some_and(|target| target.row.storage_version().version == "v2")
    };
    let listed = hosts.api.until(V2, |_| is_new()).await;
    assert_eq!(listed.body["items"][0]["spec"], json!({"host": "a", "port": "1"}));
    let touch = json!({"metadata": {"labels": {"touched": "yes"}}});
    assert_eq!(
        api.ask(Method::PATCH, &format!("{V1}/one"), touch, &[MERGE]).await.body["spec"],
        json!({"address": "a:1"})
    );
    assert!(stored().await.starts_with(br#"{"apiVersion":"a.example/v2""#));
    hosts.api.until(&format!("{V2}/one"), |answer| answer.body["metadata"]["labels"]["touched"] == "yes").await;
    hosts.hook.take();
    assert_eq!(hosts.spec(&format!("{V2}/one")).await, json!({"host": "a", "port": "1"}));
    assert_eq!(hosts.hook.take(), [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_conversion_is_an_error_in_the_words_of_kubernetes() {
    let hosts = Hosts::start().await;
    let api = &hosts.api;
    api.create(V1, host("v1", "one", json!({"address": "a:1"}))).await;
    hosts.answer(refusing);
    let refused = api.get(&format!("{V2}/one")).await;
    let message = "conversion webhook for a.example/v1, Kind=Host failed: not today";
    assert_eq!((refused.code, refused.message()), (500, message));
    let list = api.get(V2).await;
    let of_list = "conversion webhook for a.example/v1, Kind=HostList failed: not today";
    assert_eq!((list.code, list.message()), (500, of_list));
    let refused = api.post(V2, host("v2", "two", json!({"host": "b"}))).await;
    let of_write = "conversion webhook for a.example/v2, Kind=Host failed: not today";
    assert_eq!((refused.code, refused.message()), (500, of_write));
    assert_eq!(api.get(&format!("{V1}/two")).await.code, 404, "nothing is stored");
    hosts.network.remove(HOOK);
    let gone = api.get(&format!("{V2}/one")).await;
    let unreachable = "conversion webhook for a.example/v1, Kind=Host failed: Post \
                       \"https://hooks.test/convert?timeout=30s\": dial tcp hooks.test:443: connect: connection refused";
    assert_eq!((gone.code, gone.message()), (500, unreachable));
    // The stored version needs no conversion.
    assert_eq!(api.get(&format!("{V1}/one")).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_behind_simulated_pods_is_refused_at_once() {
    let hosts = Hosts::start().await;
    let api = &hosts.api;
    let ports = json!({"ports": [{"port": 443}]});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hooks"}, "spec": ports});
    api.create("/api/v1/namespaces/default/services", service).await;
    let pod = json!({"addresses": ["10.244.0.3"], "targetRef": {"kind": "Pod", "namespace": "default", "name": "p"}});
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "hooks-1", "labels": {"kubernetes.io/service-name": "hooks"}},
        "ports": [{"port": 8443}], "endpoints": [pod],
    });
    api.create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice).await;
    let client = json!({"url": null, "service": {"namespace": "default", "name": "hooks", "path": "/convert"}});
    let patch = json!({"spec": {"conversion": {"webhook": {"clientConfig": client}}}});
    let patched = api.ask(Method::PATCH, &format!("{DEFINITIONS}/hosts.a.example"), patch, &[MERGE]).await;
    assert_eq!(patched.code, 200, "{}", patched.text);
    api.create(V1, host("v1", "one", json!({"address": "a:1"}))).await;
    let refused = hosts.api.until(&format!("{V2}/one"), |answer| answer.code == 500).await;
    let begins = "conversion webhook for a.example/v1, Kind=Host failed: Post \
                  \"https://hooks.default.svc:443/convert?timeout=30s\": service \"default/hooks\" leads to pod \"default/p\"";
    assert!(refused.message().starts_with(begins), "{}", refused.message());
}
