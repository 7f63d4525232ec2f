//! Tests a custom resource whose versions a webhook converts, by URL and behind a Service.

use crate::program;
use crate::webhook_server::{serve, service};
use axum::body::{Body, to_bytes};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use component_base::env::Env;
use component_base::network::HttpService;
use component_base::pki::Authority;
use e2e::apiserver::ApiServer;
use e2e::kubectl::Kubectl;
use e2e::store::Store;
use e2e::wait;
use http::{Request, Response};
use serde_json::{Value, json};
use std::convert::Infallible;

/// Converts an object to another version. Version 1 has `spec.address`; version 2 has `spec.host` and `spec.port`.
fn converted(object: &Value, to: &Value) -> Value {
    let mut object = object.clone();
    let spec = object["spec"].take();
    let text = |key: &str| spec[key].as_str().unwrap_or_default();
    object["apiVersion"] = to.clone();
    object["spec"] = if to == "a.example/v2" {
        let (host, port) = text("address").split_once(':').unwrap_or((text("address"), ""));
        json!({"host": host, "port": port})
    } else {
        json!({"address": format!("{}:{}", text("host"), text("port"))})
    };
    object
}

async fn convert(request: Request<Body>) -> Result<Response<Body>, Infallible> {
    let bytes = to_bytes(request.into_body(), 1 << 20).await.unwrap_or_default();
    let review: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let objects = review["request"]["objects"].as_array().cloned().unwrap_or_default();
    let objects: Vec<Value> =
        objects.iter().map(|object| converted(object, &review["request"]["desiredAPIVersion"])).collect();
    let answer = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "response": {"uid": review["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": objects},
    });
    Ok(Response::new(Body::from(answer.to_string())))
}

fn definition(client: &Value) -> Value {
    let version = |name: &str, fields: &[&str]| {
        let fields: serde_json::Map<String, Value> =
            fields.iter().map(|field| ((*field).to_owned(), json!({"type": "string"}))).collect();
        json!({
            "name": name, "served": true, "storage": name == "v1",
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": fields}}}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "hosts.a.example"},
        "spec": {
            "group": "a.example", "scope": "Namespaced", "names": {"plural": "hosts", "singular": "host", "kind": "Host"},
            "versions": [version("v1", &["address"]), version("v2", &["host", "port"])],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"], "clientConfig": client}},
        },
    })
}

const HOST: &str = r#"{"apiVersion": "a.example/v2", "kind": "Host", "metadata": {"name": "web"}, "spec": {"host": "a", "port": "80"}}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_are_converted_by_a_webhook() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::system().child();
    let authority = Authority::load_or_create(&directory.path().join("hooks"), env.wall()).unwrap();
    let address = serve(&env, &authority, HttpService::new(tower::service_fn(convert))).await;
    let server = ApiServer::start(program(), directory.path(), Store::Embedded).await;
    let kubectl = Kubectl::new(&server.data_dir.pki_of("admin").join("kubeconfig"), directory.path());
    let bundle = BASE64.encode(&authority.cert_pem);
    let apply = |name: &str, object: &str| {
        let file = directory.path().join(name);
        std::fs::write(&file, object).unwrap();
        kubectl.ok(&format!("apply -f {}", file.display()))
    };
    let by_url = definition(&json!({"url": format!("https://{address}/convert"), "caBundle": bundle}));
    apply("crd.json", &by_url.to_string());
    kubectl.ok("wait --for condition=Established crd/hosts.a.example --timeout=60s");
    wait::until("hosts are served", || kubectl.run("get hosts.v2.a.example").success);
    assert!(apply("host.json", HOST).contains("host.a.example/web created"));
    assert!(apply("host.json", HOST).contains("unchanged"));
    let spec = |version: &str| kubectl.ok(&format!("get hosts.{version}.a.example web -o jsonpath={{.spec}}"));
    assert_eq!(
        (spec("v1"), spec("v2")),
        (r#"{"address":"a:80"}"#.to_owned(), r#"{"host":"a","port":"80"}"#.to_owned())
    );

    apply("service.json", &service(address).to_string());
    let reference =
        json!({"service": {"namespace": "default", "name": "hooks", "path": "/convert"}, "caBundle": bundle});
    apply("crd.json", &definition(&reference).to_string());
    wait::until("the webhook behind the Service is called", || kubectl.run("get hosts.v2.a.example web").success);
    assert!(
        kubectl.ok("patch hosts.v2.a.example web --type=merge -p {\"spec\":{\"port\":\"81\"}}").contains("patched")
    );
    assert_eq!(spec("v1"), r#"{"address":"a:81"}"#);
    env.drain().await;
    let refused = kubectl.fails("get hosts.v2.a.example web");
    let expected = "conversion webhook for a.example/v1, Kind=Host failed: Post \"https://hooks.default.svc:443/convert?timeout=30s\"";
    assert!(refused.contains(expected), "{refused}");
    assert_eq!(spec("v1"), r#"{"address":"a:81"}"#);
}
