//! Tests an API server that aggregates a group of a second one: kubectl uses the group through the first server,
//! before, while and after the second one is down.

use crate::{etcd, program};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use client::Client;
use component_base::dial::SERVICE_ENDPOINT;
use component_base::pki::{Authority, Subject};
use e2e::apiserver::ApiServer;
use e2e::kubectl::Kubectl;
use e2e::raw_request::{Answer, RawRequest};
use e2e::store::Store;
use e2e::wait;
use http::Uri;
use jiff::Timestamp;
use orrery::up::data_dir::DataDir;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

const BOOKS: &str = "/apis/books.example/v1/namespaces/default/books";
const API_SERVICE: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1.books.example";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// Names in the second server's certificate.
const NAMES: [&str; 9] = [
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "10.96.0.1",
    "books.default.svc",
];

const DEFINITION: &str = r#"{
  "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
  "metadata": {"name": "books.books.example"},
  "spec": {
    "group": "books.example", "scope": "Namespaced",
    "names": {"plural": "books", "singular": "book", "kind": "Book", "shortNames": ["bk"]},
    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
      "type": "object", "properties": {"spec": {"type": "object", "properties": {
        "pages": {"type": "integer", "description": "How many there are between the covers."}}}}}},
      "additionalPrinterColumns": [{"name": "Pages", "type": "integer", "jsonPath": ".spec.pages"}]}]
  }
}"#;
const BOOK: &str =
    r#"{"apiVersion": "books.example/v1", "kind": "Book", "metadata": {"name": "moby"}, "spec": {"pages": 635}}"#;

/// Starts the second server, which serves books and trusts a proxy named `aggregator`.
async fn second(directory: &Path, proxies: &Path, now: Timestamp) -> ApiServer {
    let data_dir = DataDir::open(&directory.join("second")).unwrap();
    let authority = Authority::load_or_create(&data_dir.pki().join("ca"), now).unwrap();
    let names = NAMES.map(str::to_owned);
    let subject = Subject { common_name: "kube-apiserver", names: &names, ..Subject::default() };
    let pair = authority.issue(&subject, now).unwrap();
    let own = data_dir.pki_of("apiserver");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("tls.crt"), pair.cert_pem).unwrap();
    std::fs::write(own.join("tls.key"), pair.key_pem).unwrap();
    let ca_file = format!("--requestheader-client-ca-file={}", proxies.join("ca.crt").display());
    // In addition to the flags of every server in these tests.
    let flags = [ca_file.as_str(), "--requestheader-allowed-names=aggregator"];
    ApiServer::start_in(program(), Arc::new(data_dir), Store::Embedded, &flags).await
}

/// Starts the first server, which authenticates to other servers as `aggregator`.
async fn first(directory: &Path, proxies: &Authority, store: Store<'_>, now: Timestamp) -> ApiServer {
    let pair = proxies.issue(&Subject { common_name: "aggregator", ..Subject::default() }, now).unwrap();
    let (cert, key) = (directory.join("aggregator.crt"), directory.join("aggregator.key"));
    std::fs::write(&cert, pair.cert_pem).unwrap();
    std::fs::write(&key, pair.key_pem).unwrap();
    let flags =
        [format!("--proxy-client-cert-file={}", cert.display()), format!("--proxy-client-key-file={}", key.display())];
    let data_dir = DataDir::open(&directory.join("first")).unwrap();
    ApiServer::start_in(program(), Arc::new(data_dir), store, &flags.each_ref().map(String::as_str)).await
}

async fn send(client: &Client, request: RawRequest) -> Answer {
    request.send(client).await.unwrap()
}

async fn create(client: &Client, path: &str, body: &str) {
    let answer = send(client, RawRequest::post(path, body)).await;
    assert_eq!(answer.code, 201, "{}", answer.text);
}

async fn patch(client: &Client, body: &Value) {
    let answer = send(client, RawRequest::patch(API_SERVICE, "application/merge-patch+json", &body.to_string())).await;
    assert_eq!(answer.code, 200, "{}", answer.text);
}

/// Waits until the APIService's condition has a reason. Returns the condition's message.
async fn condition(client: &Client, reason: &str) -> String {
    let mut condition = Value::Null;
    wait::until_async(&format!("the APIService says {reason}"), async || {
        condition = send(client, RawRequest::get(API_SERVICE)).await.body["status"]["conditions"][0].clone();
        condition["reason"] == reason
    })
    .await;
    condition["message"].as_str().unwrap().to_owned()
}

async fn freshness(client: &Client) -> Value {
    let groups = send(client, RawRequest::get("/apis").header("accept", AGGREGATED)).await.body;
    let groups = groups["items"].as_array().unwrap().clone();
    let books = groups.into_iter().find(|group| group["metadata"]["name"] == "books.example");
    books.map_or(Value::Null, |group| group["versions"][0]["freshness"].clone())
}

async fn a_group_of_another_server(store: Store<'_>) {
    let directory = tempfile::tempdir().unwrap();
    let now = component_base::env::Env::system().wall();
    let proxies = directory.path().join("proxies");
    let authority = Authority::load_or_create(&proxies, now).unwrap();
    let mut second = second(directory.path(), &proxies, now).await;
    let first = first(directory.path(), &authority, store, now).await;
    let (near, far) = (first.client(&first.admin), second.client(&second.admin));
    create(&far, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION).await;

    // The annotation of the Service has the second server's address.
    let uri: Uri = second.admin.server.parse().unwrap();
    let service = json!({
        "metadata": {"name": "books", "annotations": {SERVICE_ENDPOINT: uri.authority().unwrap().as_str()}},
        "spec": {"ports": [{"port": 443}]},
    });
    create(&near, "/api/v1/namespaces/default/services", &service.to_string()).await;
    let bundle = |pem: &str| BASE64.encode(pem);
    let api_service = json!({"metadata": {"name": "v1.books.example"}, "spec": {
        "group": "books.example", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
        "service": {"namespace": "default", "name": "books"}, "caBundle": bundle(&authority.cert_pem)}});
    create(&near, "/apis/apiregistration.k8s.io/v1/apiservices", &api_service.to_string()).await;
    let message = condition(&near, "FailedDiscoveryCheck").await;
    assert!(message.ends_with("x509: certificate signed by unknown authority"), "{message}");
    let own_ca = second.admin.ca_pem.clone().unwrap();
    patch(&near, &json!({"spec": {"caBundle": bundle(&own_ca)}})).await;
    condition(&near, "Passed").await;

    let kubeconfig = first.data_dir.pki_of("admin").join("kubeconfig");
    let kubectl = Kubectl::new(&kubeconfig, directory.path());
    let file = directory.path().join("book.json");
    std::fs::write(&file, BOOK).unwrap();
    assert!(kubectl.ok(&format!("apply -f {}", file.display())).contains("book.books.example/moby created"));
    let shown = kubectl.ok("get bk");
    assert!(shown.contains("PAGES") && shown.contains("635"), "{shown}");
    assert!(kubectl.ok("explain book.spec.pages").contains("How many there are between the covers."));
    assert!(kubectl.ok("get apiservice v1.books.example").contains("default/books"));
    assert!(kubectl.ok("get apiservices").contains("v1.apps"));
    let watched = send(&near, RawRequest::get(&format!("{BOOKS}?watch=1&resourceVersion=0&timeoutSeconds=1"))).await;
    assert!(watched.text.starts_with(r#"{"type":"ADDED""#), "{}", watched.text);

    // The first server allows ann to list books. The second one gets her name from it, and refuses.
    kubectl.ok("create clusterrole reader --verb=get,list --resource=configmaps");
    let rule = json!({"rules": [{"apiGroups": ["books.example"], "resources": ["books"], "verbs": ["list"]}]});
    let role = RawRequest::patch(
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/reader",
        "application/merge-patch+json",
        &rule.to_string(),
    );
    assert_eq!(send(&near, role).await.code, 200);
    kubectl.ok("create clusterrolebinding reader --clusterrole=reader --user=ann");
    let refused = kubectl.fails("get books --as=ann");
    assert!(refused.contains(r#"User "ann" cannot list resource "books" in API group "books.example""#), "{refused}");
    let of_second = send(&far, RawRequest::get(BOOKS)).await.body;
    assert_eq!(of_second["items"][0]["spec"]["pages"], 635, "the other server has it");
    assert!(
        send(&near, RawRequest::get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")).await.body["items"]
            .as_array()
            .unwrap()
            .is_empty()
    );

    second.kill();
    condition(&near, "FailedDiscoveryCheck").await;
    wait::until_async("the group is stale", async || freshness(&near).await == "Stale").await;
    let gone = send(&near, RawRequest::get(BOOKS)).await;
    assert_eq!((gone.code, gone.text.as_str()), (503, "service unavailable\n"));
    assert!(
        kubectl.ok("get configmaps").contains("kube-root-ca.crt") || kubectl.ok("get namespaces").contains("default")
    );
    second.restart().await;
    condition(&near, "Passed").await;
    wait::until_async("books are back", async || send(&near, RawRequest::get(BOOKS)).await.code == 200).await;
    assert_eq!(freshness(&near).await, "Current");
    kubectl.ok("delete apiservice v1.books.example");
    assert_eq!(send(&near, RawRequest::get(BOOKS)).await.code, 404);
}

#[tokio::test]
async fn another_server_serves_a_group_embedded() {
    a_group_of_another_server(Store::Embedded).await;
}

#[tokio::test]
async fn another_server_serves_a_group_on_etcd() {
    let directory = tempfile::tempdir().unwrap();
    let Some(etcd) = etcd(directory.path()) else { return };
    a_group_of_another_server(Store::Etcd(&etcd)).await;
}
