//! Aggregation: an API group that another server serves, through this server. The other server runs in this process.

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

/// The aggregated server. Records the URI and headers of its requests.
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
        asked.iter().rev().find(|(uri, _)| uri == path).map(|(_, headers)| headers.clone()).expect("it got the request")
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

/// This server, and the aggregated server beside it.
struct Setup {
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

impl Setup {
    async fn start() -> Self {
        let api = Api::start().await;
        let Network::InProcess(network) = api.server.server.env.network().clone() else { panic!("it is simulated") };
        let setup = Self { api, network, backend: Backend::default() };
        setup.serve();
        setup
    }

    /// Starts with a Service that leads to the aggregated server and an APIService that is available.
    async fn with_books() -> Self {
        let setup = Self::start().await;
        let spec = json!({"type": "ExternalName", "externalName": HOST});
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "books"}, "spec": spec});
        setup.api.create("/api/v1/namespaces/default/services", service).await;
        setup.api.create(API_SERVICES, api_service(json!({}))).await;
        setup.until_condition("Passed").await;
        setup
    }

    fn serve(&self) {
        self.network.register(&format!("{HOST}:8443"), self.backend.service());
    }

    fn stop(&self) {
        self.network.remove(&format!("{HOST}:8443"));
    }

    /// Waits until the condition has this reason, and returns its message.
    async fn until_condition(&self, reason: &str) -> String {
        let path = format!("{API_SERVICES}/v1.books.example");
        let answer = self.api.until(&path, |answer| answer.body["status"]["conditions"][0]["reason"] == reason).await;
        answer.body["status"]["conditions"][0]["message"].as_str().unwrap().to_owned()
    }

    /// Returns the version of the group in aggregated discovery, or null.
    async fn discovered_version(&self) -> Value {
        let groups = self.api.get_as("/apis", AGGREGATED).await.body;
        let groups = groups["items"].as_array().unwrap().clone();
        let of_books = groups.into_iter().find(|group| group["metadata"]["name"] == "books.example");
        of_books.map_or(Value::Null, |group| group["versions"][0].clone())
    }
}

#[tokio::test(start_paused = true)]
async fn requests_reach_the_other_server_in_the_name_of_their_caller() {
    let setup = Setup::with_books().await;
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
    let answer = setup.api.ask(Method::GET, &asked, "", &given).await;
    assert_eq!((answer.code, &answer.body["kind"]), (200, &json!("BookList")), "{}", answer.text);
    assert!(answer.headers.get("connection").is_none());
    let headers = setup.backend.headers_of(&asked);
    let all = |name: &str| headers.get_all(name).iter().map(|v| v.to_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(all("x-remote-user"), ["ann"]);
    assert_eq!(all("x-remote-group"), ["devs", "system:masters", "system:authenticated"]);
    assert_eq!((all("x-remote-extra-team"), all("audit-id")), (vec!["red".to_owned()], vec!["mine".to_owned()]));
    assert_eq!(all("traceparent"), [given[0].1]);
    assert!(["authorization", "impersonate-user"].iter().all(|name| headers.get(*name).is_none()));
    // A refusal of the aggregated server is passed on. A request that is not authorized does not reach it.
    let missing = setup.api.get(&format!("{BOOKS}/none")).await;
    assert_eq!((missing.code, missing.message()), (404, "no such book"));
    let before = setup.backend.0.lock().len();
    let refused = setup.api.ask(Method::GET, BOOKS, "", &[("authorization", "Bearer ann-token")]).await;
    assert_eq!((refused.code, setup.backend.0.lock().len()), (403, before), "{}", refused.text);
}

#[tokio::test(start_paused = true)]
async fn discovery_and_openapi_show_the_aggregated_group() {
    let setup = Setup::with_books().await;
    let groups = setup.api.get("/apis").await.body;
    let last = groups["groups"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["name"], &last["preferredVersion"]["version"]), (&json!("books.example"), &json!("v1")));
    assert_eq!(setup.api.get("/apis/books.example").await.body["kind"], "APIGroup");
    assert_eq!(setup.api.get("/apis/books.example/v1").await.body["resources"][0]["name"], "books");
    let version = setup.discovered_version().await;
    assert_eq!((&version["freshness"], &version["resources"][0]["resource"]), (&json!("Current"), &json!("books")));
    let index = setup.api.get("/openapi/v3").await.body;
    let url = index["paths"]["apis/books.example/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    assert_eq!(setup.api.get(&url).await.body["books"], true);
    let whole = setup.api.get("/openapi/v2").await.body;
    assert_eq!(whole["definitions"]["Book"]["description"], "Pages between covers.");
    assert!(whole["paths"]["/apis/books.example/v1/books"].is_object() && whole["paths"]["/api/v1/pods"].is_object());
}

#[tokio::test(start_paused = true)]
async fn the_condition_follows_a_server_that_stops_and_starts_again() {
    let setup = Setup::with_books().await;
    setup.stop();
    // The first request gets the error of the connection.
    let first = setup.api.get(BOOKS).await;
    assert_eq!((first.code, first.text.as_str()), (503, "dial tcp books.test:8443: connect: connection refused\n"));
    let message = setup.until_condition("FailedDiscoveryCheck").await;
    let expected = "failing or missing response from https://books.test:8443/apis/books.example/v1: \
         Get \"https://books.test:8443/apis/books.example/v1\": dial tcp books.test:8443: connect: connection refused";
    assert_eq!(message, expected);
    let refused = setup.api.until(BOOKS, |answer| answer.text == "service unavailable\n").await;
    assert_eq!((refused.code, refused.headers["content-type"].to_str().unwrap()), (503, "text/plain; charset=utf-8"));
    let version = setup.discovered_version().await;
    assert_eq!((&version["freshness"], &version["resources"][0]["resource"]), (&json!("Stale"), &json!("books")));
    setup.serve();
    setup.api.until(BOOKS, |answer| answer.code == 200).await;
    assert_eq!(setup.discovered_version().await["freshness"], "Current");
    // Without its APIService, the group is not served.
    let path = format!("{API_SERVICES}/v1.books.example");
    assert_eq!(setup.api.ask(Method::DELETE, &path, "", &[]).await.code, 200);
    let gone = setup.api.until(BOOKS, |answer| answer.code == 404).await;
    assert_eq!(gone.text, "404 page not found\n");
    assert!(setup.discovered_version().await.is_null() && !setup.api.get("/apis").await.text.contains("books.example"));
}

#[tokio::test(start_paused = true)]
async fn the_condition_says_what_is_missing_until_nothing_is() {
    let setup = Setup::start().await;
    setup.api.create(API_SERVICES, api_service(json!({}))).await;
    assert_eq!(setup.until_condition("ServiceNotFound").await, r#"service/books in "default" is not present"#);
    let service = |port: u16| {
        let ports = json!([{"name": "web", "port": port}]);
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "books"}, "spec": {"ports": ports}})
    };
    let services = "/api/v1/namespaces/default/services";
    setup.api.create(services, service(1)).await;
    setup.until_condition("ServicePortError").await;
    let merge = [("content-type", "application/merge-patch+json")];
    let patch = |patch: Value| {
        let api = &setup.api;
        async move { api.ask(Method::PATCH, "/api/v1/namespaces/default/services/books", patch, &merge).await.code }
    };
    assert_eq!(patch(json!({"spec": {"ports": [{"name": "web", "port": 8443}]}})).await, 200);
    setup.until_condition("EndpointsNotFound").await;
    let slice = |endpoint: Value| {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "books-1", "labels": {"kubernetes.io/service-name": "books"}},
            "ports": [{"name": "web", "port": 8443}], "endpoints": [endpoint],
        })
    };
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    setup.api.create(slices, slice(json!({"addresses": ["192.0.2.1"], "conditions": {"ready": false}}))).await;
    setup.until_condition("MissingEndpoints").await;
    let pod = json!({"kind": "Pod", "namespace": "default", "name": "p"});
    let simulated = slice(json!({"addresses": ["10.244.0.5"], "targetRef": pod}));
    assert_eq!(setup.api.ask(Method::PUT, &format!("{slices}/books-1"), simulated, &[]).await.code, 200);
    let message = setup.until_condition("FailedDiscoveryCheck").await;
    assert!(
        message.starts_with("service \"default/books\" leads to pod \"default/p\", which is simulated"),
        "{message}"
    );
    // An annotation names the address of the real server.
    let annotations = json!({SERVICE_ENDPOINT: format!("{HOST}:8443")});
    assert_eq!(patch(json!({"metadata": {"annotations": annotations}})).await, 200);
    setup.until_condition("Passed").await;
    assert_eq!(setup.api.until(BOOKS, |answer| answer.code == 200).await.body["kind"], "BookList");
}

#[tokio::test(start_paused = true)]
async fn what_this_server_serves_has_api_services_of_its_own() {
    let setup = Setup::start().await;
    let named = |name: &str| format!("{API_SERVICES}/{name}");
    let is_local = |answer: &Answer| answer.body["status"]["conditions"][0]["reason"] == "Local";
    let core = setup.api.until(&named("v1."), is_local).await.body;
    assert_eq!(core["spec"], json!({"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}));
    let apps = setup.api.until(&named("v1.apps"), is_local).await.body;
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
    setup.api.create(definitions, definition).await;
    let own = setup.api.until(&named("v1.a.example"), is_local).await.body;
    assert_eq!(own["metadata"]["labels"], json!({"kube-aggregator.kubernetes.io/automanaged": "true"}));
    // A deleted APIService is created again while its definition exists, and is deleted with the definition.
    setup.api.ask(Method::DELETE, &named("v1.a.example"), "", &[]).await;
    let uid = own["metadata"]["uid"].clone();
    setup.api.until(&named("v1.a.example"), |answer| answer.code == 200 && answer.body["metadata"]["uid"] != uid).await;
    setup.api.ask(Method::DELETE, &format!("{definitions}/gadgets.a.example"), "", &[]).await;
    setup.api.until(&named("v1.a.example"), |answer| answer.code == 404).await;
}

/// A server on an etcd without watch progress does not poll its store.
#[tokio::test(start_paused = true)]
async fn a_server_at_rest_leaves_its_store_alone() {
    let env = Env::simulated(1);
    let members = Model::new(&env, 1).members(1, model::OLD);
    let store = Fault::new(&env, etcd_tests::over(&env, &members).await.unwrap());
    // Calls take time, so that virtual time passes even for a loop that only calls the store.
    store.set(Faults { delay: 1.0, longest_delay: Duration::from_millis(2), ..Faults::default() });
    let api = Api::on(&env, store, Config { store: Some(StoreKind::Memory), ..Config::default() }).await;
    // The newest write is not to an APIService, so that a reader of APIServices has to learn of a newer revision.
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
