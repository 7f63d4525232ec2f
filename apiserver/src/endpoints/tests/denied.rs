//! Tests of authorization on every route and verb: an anonymous user and a user without role bindings are denied, except
//! for what Kubernetes' default roles allow. A denial sends no request to the store.

use crate::config::Config;
use crate::testing::Api;
use http::Method;
use proto::resources::{Catalogue, Scope, Verb};
use std::collections::BTreeSet;

/// Reviews that `system:basic-user` lets every authenticated user create.
const REVIEWS: [&str; 3] = [
    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
];

/// Paths that `system:public-info-viewer` lets every user read.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Returns whether `system:discovery` lets every authenticated user read the path.
fn is_discovery(path: &str) -> bool {
    let below = |root: &str| path == root || path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
    ["/api", "/apis", "/openapi"].iter().any(|root| below(root)) || PUBLIC.contains(&path)
}

fn method(verb: Verb) -> (Method, &'static str) {
    match verb {
        Verb::Create => (Method::POST, ""),
        Verb::Delete | Verb::DeleteCollection => (Method::DELETE, ""),
        Verb::Get | Verb::List => (Method::GET, ""),
        Verb::Patch => (Method::PATCH, ""),
        Verb::Update => (Method::PUT, ""),
        Verb::Watch => (Method::GET, "?watch=true"),
    }
}

/// Returns the routes of every served version of every kind: of its verbs and of its subresources' verbs, in one namespace
/// and in all.
fn resource_routes() -> BTreeSet<(String, String)> {
    let catalogue = Catalogue::builtin();
    let mut routes = BTreeSet::new();
    for group in catalogue.groups() {
        for version in &group.versions {
            let root = match group.group.as_str() {
                "" => format!("/api/{version}"),
                group => format!("/apis/{group}/{version}"),
            };
            for target in catalogue.resources(&group.group, version) {
                let served = target.served();
                let resource = &served.resource;
                let namespace = if target.row.scope == Scope::Namespaced { "/namespaces/default" } else { "" };
                for verb in served.verbs {
                    let (method, query) = method(*verb);
                    let name = match verb {
                        Verb::Create | Verb::List | Verb::Watch | Verb::DeleteCollection => "",
                        _ => "/some",
                    };
                    routes.insert((method.to_string(), format!("{root}{namespace}/{resource}{name}{query}")));
                    if matches!(verb, Verb::List | Verb::Watch) {
                        routes.insert((method.to_string(), format!("{root}/{resource}{query}")));
                    }
                }
                for subresource in &served.subresources {
                    for verb in subresource.verbs {
                        let (method, query) = method(*verb);
                        let path = format!("{root}{namespace}/{resource}/some/{}{query}", subresource.name);
                        routes.insert((method.to_string(), path));
                    }
                }
            }
        }
    }
    routes
}

/// Returns the number of requests to the store so far.
async fn store_requests(api: &Api) -> f64 {
    let metrics = api.get("/metrics").await.text;
    let counts = metrics.lines().filter(|line| line.starts_with("etcd_requests_total{"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

async fn code(api: &Api, method: &str, path: &str, authorization: &str) -> u16 {
    let method = Method::from_bytes(method.as_bytes()).expect("it is a method");
    let patch = [("authorization", authorization), ("content-type", "application/merge-patch+json")];
    let headers = if method == Method::PATCH { &patch[..] } else { &patch[..1] };
    let body = if method == Method::GET { "" } else { "{}" };
    api.ask(method, path, body, headers).await.code
}

#[tokio::test(start_paused = true)]
async fn every_route_is_denied_to_users_without_role_bindings() {
    // Every optional route is enabled.
    let api = Api::with(Config { enable_request_trace: true, ..Config::default() }).await;
    let routes = resource_routes();
    assert!(routes.len() > 600, "{}", routes.len());
    let before = store_requests(&api).await;
    for (method, path) in &routes {
        assert_eq!(code(&api, method, path, "").await, 403, "anonymous {method} {path}");
        let is_review = method == "POST" && REVIEWS.contains(&path.as_str());
        if !is_review {
            assert_eq!(code(&api, method, path, "Bearer ann-token").await, 403, "{method} {path}");
        }
    }
    assert_eq!(store_requests(&api).await, before, "a denial sends no request to the store");
    for path in REVIEWS {
        assert_ne!(code(&api, "POST", path, "Bearer ann-token").await, 403, "{path}");
    }

    let index = api.get("/").await.body;
    let mut paths: Vec<String> = serde_json::from_value(index["paths"].clone()).expect("it lists paths");
    paths.extend(
        [
            "/",
            "/debug/api_priority_and_fairness/dump_queues",
            "/debug/requests",
            "/debug/requests/some",
            "/logs",
            "/nothing",
            "/configz",
        ]
        .map(str::to_owned),
    );
    assert!(paths.len() > 50, "{paths:?}");
    for path in paths {
        let anonymous = if PUBLIC.contains(&path.as_str()) { 200 } else { 403 };
        assert_eq!(code(&api, "GET", &path, "").await, anonymous, "anonymous {path}");
        let is_refused = code(&api, "GET", &path, "Bearer ann-token").await == 403;
        assert_eq!(is_refused, !is_discovery(&path), "{path}");
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            for authorization in ["", "Bearer ann-token"] {
                assert_eq!(code(&api, method, &path, authorization).await, 403, "{authorization} {method} {path}");
            }
        }
    }
}

/// Paths are compared byte by byte, so another spelling of a path does not bypass authorization.
#[tokio::test(start_paused = true)]
async fn no_spelling_of_a_path_bypasses_authorization() {
    let api = Api::start().await;
    for path in [
        "/healthz/../api/v1/secrets",
        "/healthz/%2e%2e/api/v1/secrets",
        "/version/../api/v1/namespaces/default/secrets",
        "/livez%2f..%2fapi%2fv1%2fsecrets",
        "//api/v1/secrets",
        "/api//v1/secrets",
        "/api/v1//secrets",
        "/api/v1/./secrets",
        "/api/v1/namespaces/default//secrets",
        "/api/v1/namespaces/default/../kube-system/secrets",
        "/api/v1/namespaces/default%2f..%2fkube-system/secrets",
        "/api/v1/secrets/",
        "/API/v1/secrets",
        "/api/v1/Secrets",
        "/api/v1/namespaces/default/configmaps/..%2f..%2fsecrets",
        "/healthz/etcd/../../metrics",
        "/%6detrics",
        "/metrics/",
    ] {
        assert_eq!(code(&api, "GET", path, "").await, 403, "anonymous {path}");
        let without_bindings = code(&api, "GET", path, "Bearer ann-token").await;
        let is_page = is_discovery(path) && without_bindings == 404;
        assert!(without_bindings == 403 || is_page, "{without_bindings} {path}");
    }
}
