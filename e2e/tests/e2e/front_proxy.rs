//! Tests an authenticating proxy before the API server: it sends the names of its users, and authenticates with its own
//! certificate.

use crate::program;
use client::Client;
use component_base::kubeconfig::Connection;
use component_base::pki::{Authority, Subject};
use e2e::apiserver::ApiServer;
use e2e::raw_request::{Answer, RawRequest};
use e2e::store::Store;
use orrery::up::data_dir::DataDir;
use serde_json::{Value, json};
use std::sync::Arc;

const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Sends a SelfSubjectReview with these headers.
async fn who(client: &Client, headers: &[(&'static str, &str)]) -> Answer {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = RawRequest::post(WHO, review.to_string());
    let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
    request.send(client).await.unwrap()
}

/// Returns the authenticated user of a review.
fn user(answer: &Answer) -> &Value {
    assert_eq!(answer.code, 201, "{}", answer.body);
    &answer.body["status"]["userInfo"]
}

#[tokio::test]
async fn only_the_front_proxy_may_name_users() {
    let directory = tempfile::tempdir().unwrap();
    let proxies = directory.path().join("proxies");
    let now = component_base::env::Env::system().wall();
    let authority = Authority::load_or_create(&proxies, now).unwrap();
    let data_dir = Arc::new(DataDir::open(&directory.path().join("data")).unwrap());
    let ca_file = format!("--requestheader-client-ca-file={}", proxies.join("ca.crt").display());
    // In addition to the flags of every server in these tests.
    let flags = [ca_file.as_str(), "--requestheader-allowed-names=front"];
    let server = ApiServer::start_in(program(), data_dir, Store::Memory, &flags).await;
    let with = |common_name| {
        let pair = authority.issue(&Subject { common_name, ..Subject::default() }, now).unwrap();
        let (client_cert_pem, client_key_pem) = (Some(pair.cert_pem), Some(pair.key_pem));
        server.client(&Connection { client_cert_pem, client_key_pem, ..server.admin.clone() })
    };
    let ann = [("x-remote-user", "ann"), ("x-remote-group", "dev"), ("x-remote-extra-team", "red")];

    let front = with("front");
    let seen = who(&front, &ann).await;
    let expected = json!({"username": "ann", "groups": ["dev", "system:authenticated"], "extra": {"team": ["red"]}});
    assert_eq!(user(&seen), &expected);
    // The user's permissions count.
    assert_eq!(RawRequest::get("/api/v1/nodes").header("x-remote-user", "ann").send(&front).await.unwrap().code, 403);
    let masters =
        RawRequest::get("/api/v1/nodes").header("x-remote-user", "ann").header("x-remote-group", "system:masters");
    assert_eq!(masters.send(&front).await.unwrap().code, 200);
    // A proxy that names no user, has another name, or another authority is refused.
    assert_eq!(who(&front, &[]).await.code, 401);
    assert_eq!(who(&with("frond"), &ann).await.code, 401);
    let admin = who(&server.client(&server.admin), &ann).await;
    assert_eq!(user(&admin)["username"], "kubernetes-admin");
    // An ordinary client may have the proxy's name, since its authority differs.
    let clients = Authority::load_or_create(&server.data_dir.pki_of("ca"), now).unwrap();
    let pair = clients.issue(&Subject { common_name: "front", ..Subject::default() }, now).unwrap();
    let (client_cert_pem, client_key_pem) = (Some(pair.cert_pem), Some(pair.key_pem));
    let namesake = server.client(&Connection { client_cert_pem, client_key_pem, ..server.admin.clone() });
    assert_eq!(user(&who(&namesake, &ann).await)["username"], "front");
    // Of two names the first one counts, whatever the case of the header. A name may have any letters.
    let twice = RawRequest::get("/api/v1/nodes").and_header("X-Remote-User", "ann").and_header("x-remote-user", "root");
    let refused = twice.and_header("x-remote-group", "dev").send(&front).await.unwrap();
    assert!(refused.text.contains(r#"User \"ann\" cannot list"#), "{}", refused.text);
    assert_eq!(user(&who(&front, &[("x-remote-user", "zoë")]).await)["username"], "zoë");
    let anonymous = Connection { client_cert_pem: None, client_key_pem: None, ..server.admin.clone() };
    let refused = who(&server.client(&anonymous), &ann).await;
    let message = refused.body["message"].as_str().unwrap_or_default();
    assert!(message.contains(r#"User "system:anonymous" cannot create"#), "{message}");

    let published = RawRequest::get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication");
    let published = published.send(&server.client(&server.admin)).await.unwrap().body;
    let data = &published["data"];
    assert_eq!(data["requestheader-client-ca-file"].as_str().map(str::trim), Some(authority.cert_pem.trim()));
    assert_eq!(data["requestheader-allowed-names"], r#"["front-proxy-client","front"]"#);
    assert_eq!(data["client-ca-file"].as_str().map(str::trim), server.admin.ca_pem.as_deref().map(str::trim));
}
