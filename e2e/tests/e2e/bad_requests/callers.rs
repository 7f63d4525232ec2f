//! Requests without authentication, permission or trust, or with unreadable headers.

use super::{CONFIG_MAPS, Case};
use crate::program;
use component_base::kubeconfig::{self, Connection};
use component_base_testing::fixtures;
use e2e::apiserver::ApiServer;
use e2e::raw_request::RawRequest;
use e2e::store::Store;
use simulator::keys;
use std::io::{Read, Write};
use std::net::TcpStream;

#[tokio::test]
async fn strangers_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let server = ApiServer::start(program(), directory.path(), Store::Memory).await;
    let anonymous = Connection {
        server: server.admin.server.clone(),
        ca_pem: server.admin.ca_pem.clone(),
        ..Connection::default()
    };
    let with_token = |token: &str| Connection { token: Some(token.to_owned()), ..anonymous.clone() };
    let foreign = keys::connection(&server.admin.server, "kubernetes-admin");
    let foreign_certificate = Connection { ca_pem: anonymous.ca_pem.clone(), ..foreign.clone() };
    let proxy = kubeconfig::read(&server.data_dir.pki_of("proxy-sim").join("kubeconfig")).unwrap();

    let create = || RawRequest::post(CONFIG_MAPS, r#"{"metadata":{"name":"a"}}"#);
    let unauthorized = |request: RawRequest| Case::new(request, 401, "Unauthorized", "Unauthorized");
    let forbidden = |request: RawRequest, who_cannot_what: &str| Case::new(request, 403, "Forbidden", who_cannot_what);
    let before = server.revision().await;
    for (connection, case) in [
        (&with_token("nonsense"), unauthorized(create())),
        (&with_token("a.b.c"), unauthorized(create())),
        (&with_token("nonsense"), unauthorized(RawRequest::get("/healthz"))),
        (&foreign_certificate, unauthorized(create())),
        (
            &anonymous,
            forbidden(
                create(),
                r#"configmaps is forbidden: User "system:anonymous" cannot create resource "configmaps" in API group "" in the namespace "default""#,
            ),
        ),
        (
            &anonymous,
            forbidden(RawRequest::get("/metrics"), r#"forbidden: User "system:anonymous" cannot get path "/metrics""#),
        ),
        (
            &proxy,
            forbidden(
                create(),
                r#"configmaps is forbidden: User "system:kube-proxy" cannot create resource "configmaps" in API group "" in the namespace "default""#,
            ),
        ),
        (
            &proxy,
            forbidden(
                create().header("impersonate-user", "kubernetes-admin"),
                r#"configmaps is forbidden: User "system:kube-proxy" cannot impersonate-on:user-info:create resource "configmaps" in API group "" in the namespace "default""#,
            ),
        ),
    ] {
        let answer = case.request.send(&server.client(connection)).await.unwrap();
        assert_eq!(case.difference(&answer), None);
    }
    assert_eq!(server.revision().await, before, "something was stored");
}

#[tokio::test]
async fn clients_check_the_servers_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let server = ApiServer::start(program(), directory.path(), Store::Memory).await;
    let other_authority = Connection { ca_pem: Some(fixtures::authority_pem()), ..server.admin.clone() };
    let other_name = Connection { tls_server_name: Some("elsewhere.example".to_owned()), ..server.admin.clone() };
    for connection in [other_authority, other_name] {
        let error = RawRequest::get("/version").send(&server.client(&connection)).await.unwrap_err().to_string();
        assert!(error.contains("invalid peer certificate"), "{error}");
    }
    // The server's certificate has the names that pods and users connect to.
    for name in
        ["localhost", "kubernetes", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "10.96.0.1"]
    {
        let by_name = Connection { tls_server_name: Some(name.to_owned()), ..server.admin.clone() };
        assert_eq!(RawRequest::get("/version").send(&server.client(&by_name)).await.unwrap().code, 200, "{name}");
    }

    let authority = server.admin.server.strip_prefix("https://").unwrap();
    let mut plain = TcpStream::connect(authority).unwrap();
    plain.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n");
}
