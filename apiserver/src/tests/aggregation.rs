//! A group that another server serves, as clients see it; that server is a service in this process.

use crate::config::{Config, StoreKind};
use crate::testing::{Answer, Api};
use axum::body::Body;
use component_base::dial::SERVICE_ENDPOINT;
use component_base::env::Env;
use component_base::network::{HttpService, Network, Registry};
use http::{HeaderMap, Method, Request, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use storage::etcd::testing as etcd_tests;
use storage::etcd::testing::model;
use storage::etcd::testing::model::Model;
use storage::fault::{Fault, Faults};

const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const BOOKS: &str = "/apis/books.example/v1/namespaces/default/books";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const HOST: &str = "books.test";

/// What the other server was asked.
#[derive(Clone, Default)]
struct Backend(Arc<Mutex<Vec<(String, HeaderMap)>>>);

impl Backend {
    fn service(&self) -> HttpService {
        let asked = self.0.clone();
        HttpService::new(tower::service_fn(move |request: Request<Body>| {
            asked.lock().push((request.uri().to_string(), request.headers().clone()));
            let (code, body) = answer(request.uri().path());
            async move {
                let mut response = Response::new(Body::from(body.to_string()));
                *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
                response.headers_mut().insert("content-type", "application/json".parse().unwrap());
                response.headers_mut().insert("connection", "close".parse().unwrap());
                Ok::<_, Infallible>(response)
            }
        }))
    }

    fn headers_of(&self, path: &str) -> HeaderMap {
        let asked = self.0.lock();
        asked.iter().rev().find(|(uri, _)| uri == path).map(|(_, headers)| headers.clone()).expect("it was asked")
    }
}

fn answer(path: &str) -> (u16, Value) {
    let reference = json!({"schema": {"$ref": "#/definitions/Book"}});
    match path {
        "/apis/books.example/v1" => (
            200,
            json!({
                "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "books.example/v1", "resources": [
                    {"name": "books", "singularName": "book", "namespaced": true, "kind": "Book", "verbs": ["get", "list"]},
                ],
            }),
        ),
        "/openapi/v3" => (
            200,
            json!({"paths": {
            "apis/books.example/v1": {"serverRelativeURL": "/openapi/v3/apis/books.example/v1?hash=B"}}}),
        ),
        "/openapi/v3/apis/books.example/v1" => (200, json!({"openapi": "3.0.0", "books": true})),
        "/openapi/v2" => (
            200,
            json!({
                "paths": {"/apis/books.example/v1/books": {"get": {"responses": {"200": reference}}}},
                "definitions": {"Book": {"type": "object", "description": "Pages between covers."}},
            }),
        ),
        BOOKS => (200, json!({"kind": "BookList", "items": []})),
        _ => (404, json!({"kind": "Status", "code": 404, "message": "no such book"})),
    }
}

struct Shop {
    api: Api,
    network: Registry,
    backend: Backend,
}

fn api_service(extra: Value) -> Value {
    let mut spec = json!({
        "group": "books.example", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
        "service": {"namespace": "default", "name": "books", "port": 8443}, "insecureSkipTLSVerify": true,
    });
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    let kind = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"});
    let mut object = kind;
    object["metadata"] = json!({"name": "v1.books.example"});
    object["spec"] = spec;
    object
}

impl Shop {
    async fn open() -> Self {
        let api = Api::start().await;
        let Network::InProcess(network) = api.server.server.env.network().clone() else { panic!("it is simulated") };
        let shop = Self { api, network, backend: Backend::default() };
        shop.serve();
        shop
    }

    /// Open, with a service that leads to the other server and an APIService that is available.
    async fn with_books() -> Self {
        let shop = Self::open().await;
        let spec = json!({"type": "ExternalName", "externalName": HOST});
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "books"}, "spec": spec});
        shop.api.create("/api/v1/namespaces/default/services", service).await;
        shop.api.create(API_SERVICES, api_service(json!({}))).await;
        shop.until_condition("Passed").await;
        shop
    }

    fn serve(&self) {
        self.network.register(&format!("{HOST}:8443"), self.backend.service());
    }

    fn close(&self) {
        self.network.remove(&format!("{HOST}:8443"));
    }

    async fn until_condition(&self, reason: &str) -> String {
        let path = format!("{API_SERVICES}/v1.books.example");
        let answer = self.api.until(&path, |answer| answer.body["status"]["conditions"][0]["reason"] == reason).await;
        answer.body["status"]["conditions"][0]["message"].as_str().unwrap().to_owned()
    }

    async fn freshness(&self) -> Value {
        let groups = self.api.get_as("/apis", AGGREGATED).await.body;
        let groups = groups["items"].as_array().unwrap().clone();
        let of_books = groups.into_iter().find(|group| group["metadata"]["name"] == "books.example");
        of_books.map_or(Value::Null, |group| group["versions"][0].clone())
    }
}

#[tokio::test(start_paused = true)]
async fn requests_reach_the_other_server_in_the_name_of_their_caller() {
    let shop = Shop::with_books().await;
    let asked = format!("{BOOKS}?limit=5");
    let given = [
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ("audit-id", "mine"),
        ("x-remote-user", "eve"),
        ("impersonate-user", "ann"),
        ("impersonate-group", "devs"),
        ("impersonate-group", "system:masters"),
        ("impersonate-extra-team", "red"),
    ];
    let answer = shop.api.ask(Method::GET, &asked, "", &given).await;
    assert_eq!((answer.code, &answer.body["kind"]), (200, &json!("BookList")), "{}", answer.text);
    assert!(answer.headers.get("connection").is_none());
    let headers = shop.backend.headers_of(&asked);
    let all = |name: &str| headers.get_all(name).iter().map(|v| v.to_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(all("x-remote-user"), ["ann"]);
    assert_eq!(all("x-remote-group"), ["devs", "system:masters", "system:authenticated"]);
    assert_eq!((all("x-remote-extra-team"), all("audit-id")), (vec!["red".to_owned()], vec!["mine".to_owned()]));
    assert_eq!(all("traceparent"), [given[0].1]);
    assert!(["authorization", "impersonate-user"].iter().all(|name| headers.get(*name).is_none()));
    // Its refusals are its own, and who may not ask does not reach it.
    let missing = shop.api.get(&format!("{BOOKS}/none")).await;
    assert_eq!((missing.code, missing.message()), (404, "no such book"));
    let before = shop.backend.0.lock().len();
    let refused = shop.api.ask(Method::GET, BOOKS, "", &[("authorization", "Bearer ann-token")]).await;
    assert_eq!((refused.code, shop.backend.0.lock().len()), (403, before), "{}", refused.text);
}

#[tokio::test(start_paused = true)]
async fn discovery_and_openapi_tell_of_it() {
    let shop = Shop::with_books().await;
    let groups = shop.api.get("/apis").await.body;
    let last = groups["groups"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["name"], &last["preferredVersion"]["version"]), (&json!("books.example"), &json!("v1")));
    assert_eq!(shop.api.get("/apis/books.example").await.body["kind"], "APIGroup");
    assert_eq!(shop.api.get("/apis/books.example/v1").await.body["resources"][0]["name"], "books");
    let version = shop.freshness().await;
    assert_eq!((&version["freshness"], &version["resources"][0]["resource"]), (&json!("Current"), &json!("books")));
    let index = shop.api.get("/openapi/v3").await.body;
    let url = index["paths"]["apis/books.example/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    assert_eq!(shop.api.get(&url).await.body["books"], true);
    let whole = shop.api.get("/openapi/v2").await.body;
    assert_eq!(whole["definitions"]["Book"]["description"], "Pages between covers.");
    assert!(whole["paths"]["/apis/books.example/v1/books"].is_object() && whole["paths"]["/api/v1/pods"].is_object());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_gone_is_told_and_its_return_is_noticed() {
    let shop = Shop::with_books().await;
    shop.close();
    // The first to find out is told what happened.
    let first = shop.api.get(BOOKS).await;
    assert_eq!((first.code, first.text.as_str()), (503, "dial tcp books.test:8443: connect: connection refused\n"));
    let message = shop.until_condition("FailedDiscoveryCheck").await;
    let expected = "failing or missing response from https://books.test:8443/apis/books.example/v1: \
         Get \"https://books.test:8443/apis/books.example/v1\": dial tcp books.test:8443: connect: connection refused";
    assert_eq!(message, expected);
    let refused = shop.api.until(BOOKS, |answer| answer.text == "service unavailable\n").await;
    assert_eq!((refused.code, refused.headers["content-type"].to_str().unwrap()), (503, "text/plain; charset=utf-8"));
    let version = shop.freshness().await;
    assert_eq!((&version["freshness"], &version["resources"][0]["resource"]), (&json!("Stale"), &json!("books")));
    shop.serve();
    shop.api.until(BOOKS, |answer| answer.code == 200).await;
    assert_eq!(shop.freshness().await["freshness"], "Current");
    // The end of the APIService is the end of the group.
    let path = format!("{API_SERVICES}/v1.books.example");
    assert_eq!(shop.api.ask(Method::DELETE, &path, "", &[]).await.code, 200);
    let gone = shop.api.until(BOOKS, |answer| answer.code == 404).await;
    assert_eq!(gone.text, "404 page not found\n");
    assert!(shop.freshness().await.is_null() && !shop.api.get("/apis").await.text.contains("books.example"));
}

#[tokio::test(start_paused = true)]
async fn the_condition_says_what_is_missing_until_nothing_is() {
    let shop = Shop::open().await;
    shop.api.create(API_SERVICES, api_service(json!({}))).await;
    assert_eq!(shop.until_condition("ServiceNotFound").await, r#"service/books in "default" is not present"#);
    let service = |port: u16| {
        let ports = json!([{"name": "web", "port": port}]);
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "books"}, "spec": {"ports": ports}})
    };
    let services = "/api/v1/namespaces/default/services";
    shop.api.create(services, service(1)).await;
    shop.until_condition("ServicePortError").await;
    let merge = [("content-type", "application/merge-patch+json")];
    let patch = |patch: Value| {
        let api = &shop.api;
        async move { api.ask(Method::PATCH, "/api/v1/namespaces/default/services/books", patch, &merge).await.code }
    };
    assert_eq!(patch(json!({"spec": {"ports": [{"name": "web", "port": 8443}]}})).await, 200);
    shop.until_condition("EndpointsNotFound").await;
    let slice = |endpoint: Value| {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "books-1", "labels": {"kubernetes.io/service-name": "books"}},
            "ports": [{"name": "web", "port": 8443}], "endpoints": [endpoint],
        })
    };
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    shop.api.create(slices, slice(json!({"addresses": ["192.0.2.1"], "conditions": {"ready": false}}))).await;
    shop.until_condition("MissingEndpoints").await;
    let pod = json!({"kind": "Pod", "namespace": "default", "name": "p"});
    let simulated = slice(json!({"addresses": ["10.244.0.5"], "targetRef": pod}));
    assert_eq!(shop.api.ask(Method::PUT, &format!("{slices}/books-1"), simulated, &[]).await.code, 200);
    let message = shop.until_condition("FailedDiscoveryCheck").await;
    assert!(
        message.starts_with("service \"default/books\" leads to pod \"default/p\", which is simulated"),
        "{message}"
    );
    // The user says where it really is.
    let annotations = json!({SERVICE_ENDPOINT: format!("{HOST}:8443")});
    assert_eq!(patch(json!({"metadata": {"annotations": annotations}})).await, 200);
    shop.until_condition("Passed").await;
    assert_eq!(shop.api.until(BOOKS, |answer| answer.code == 200).await.body["kind"], "BookList");
}

#[tokio::test(start_paused = true)]
async fn what_this_server_serves_has_api_services_of_its_own() {
    let shop = Shop::open().await;
    let named = |name: &str| format!("{API_SERVICES}/{name}");
    let is_local = |answer: &Answer| answer.body["status"]["conditions"][0]["reason"] == "Local";
    let core = shop.api.until(&named("v1."), is_local).await.body;
    assert_eq!(core["spec"], json!({"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}));
    let apps = shop.api.until(&named("v1.apps"), is_local).await.body;
    assert_eq!(apps["metadata"]["labels"], json!({"kube-aggregator.kubernetes.io/automanaged": "onstart"}));
    assert_eq!(apps["status"]["conditions"][0]["message"], "Local APIServices are always available");

    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.a.example"},
        "spec": {
            "group": "a.example", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [version],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    shop.api.create(definitions, definition).await;
    let own = shop.api.until(&named("v1.a.example"), is_local).await.body;
    assert_eq!(own["metadata"]["labels"], json!({"kube-aggregator.kubernetes.io/automanaged": "true"}));
    // It comes back as long as the definition is there, and goes with it.
    shop.api.ask(Method::DELETE, &named("v1.a.example"), "", &[]).await;
    let uid = own["metadata"]["uid"].clone();
    shop.api.until(&named("v1.a.example"), |answer| answer.code == 200 && answer.body["metadata"]["uid"] != uid).await;
    shop.api.ask(Method::DELETE, &format!("{definitions}/gadgets.a.example"), "", &[]).await;
    shop.api.until(&named("v1.a.example"), |answer| answer.code == 404).await;
}

/// Over an etcd that does not tell how far a watch has come, whatever follows a row waits for it all the same.
#[tokio::test(start_paused = true)]
async fn a_server_at_rest_leaves_its_store_alone() {
    let env = Env::simulated(1);
    let members = Model::new(&env, 1).members(1, model::OLD);
    let store = Fault::new(&env, etcd_tests::over(&env, &members).await.unwrap());
    // Calls take time, so that time passes for whoever does not stop asking.
    store.set(Faults { delay: 1.0, longest_delay: Duration::from_millis(2), ..Faults::default() });
    let api = Api::on(&env, store, Config { store: Some(StoreKind::Memory), ..Config::default() }).await;
    // Whoever looks at APIServices after the first does so when something else has been written last.
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let service = format!("{API_SERVICES}/v1.apps");
    api.ask(Method::PATCH, &service, label, &[("content-type", "application/merge-patch+json")]).await;
    api.create("/api/v1/namespaces/default/configmaps", json!({"metadata": {"name": "last"}})).await;
    env.sleep(Duration::from_secs(60)).await;
    let calls = || -> u64 {
        let metrics = env.metrics().encode();
        let counts = metrics.lines().filter(|line| line.starts_with("etcd_requests_total{"));
        counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    let before = calls();
    env.sleep(Duration::from_secs(60)).await;
    let asked = calls() - before;
    assert!((1..200).contains(&asked), "{asked} calls in a minute");
    assert!(api.server.server.is_ready());
}
