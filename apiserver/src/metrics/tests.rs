//! Tests of the names and labels of the metrics, after some requests of each kind.

use crate::config::Config;
use crate::testing::Api;
use http::Method;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Families and their labels, as kube-apiserver v1.36 shows them.
const FAMILIES: &[(&str, &[&str])] = &[
    ("apiserver_admission_controller_admission_duration_seconds", &["name", "operation", "rejected", "type"]),
    ("apiserver_admission_step_admission_duration_seconds", &["operation", "rejected", "type"]),
    ("apiserver_current_inflight_requests", &["request_kind"]),
    ("apiserver_flowcontrol_current_r", &["priority_level"]),
    ("apiserver_flowcontrol_demand_seats", &["priority_level"]),
    ("apiserver_flowcontrol_dispatch_r", &["priority_level"]),
    ("apiserver_flowcontrol_latest_s", &["priority_level"]),
    ("apiserver_flowcontrol_next_discounted_s_bounds", &["bound", "priority_level"]),
    ("apiserver_flowcontrol_next_s_bounds", &["bound", "priority_level"]),
    ("apiserver_flowcontrol_priority_level_request_utilization", &["phase", "priority_level"]),
    ("apiserver_flowcontrol_priority_level_seat_utilization", &["phase", "priority_level"]),
    ("apiserver_flowcontrol_read_vs_write_current_requests", &["phase", "request_kind"]),
    ("apiserver_flowcontrol_request_dispatch_no_accommodation_total", &["flow_schema", "priority_level"]),
    ("apiserver_flowcontrol_watch_count_samples", &["flow_schema", "priority_level"]),
    ("apiserver_longrunning_requests", &["component", "group", "resource", "scope", "subresource", "verb", "version"]),
    (
        "apiserver_request_duration_seconds",
        &["component", "dry_run", "group", "resource", "scope", "subresource", "verb", "version"],
    ),
    (
        "apiserver_request_sli_duration_seconds",
        &["component", "group", "resource", "scope", "subresource", "verb", "version"],
    ),
    (
        "apiserver_request_total",
        &[
            "code",
            "component",
            "dry_run",
            "group",
            "resource",
            "scope",
            "subresource",
            "system_client",
            "verb",
            "version",
        ],
    ),
    ("apiserver_resource_objects", &["group", "resource"]),
    ("apiserver_response_sizes", &["component", "group", "resource", "scope", "subresource", "verb", "version"]),
    ("apiserver_storage_objects", &["resource"]),
    ("apiserver_watch_events_sizes", &["group", "resource", "version"]),
    ("apiserver_watch_events_total", &["group", "resource", "version"]),
    ("authenticated_user_requests", &["username"]),
    ("authentication_attempts", &["result"]),
    ("authentication_duration_seconds", &["result"]),
    ("authorization_attempts_total", &["result"]),
    ("authorization_duration_seconds", &["result"]),
    ("etcd_request_duration_seconds", &["group", "operation", "resource"]),
    ("etcd_requests_total", &["group", "operation", "resource"]),
    (
        "kubernetes_build_info",
        &[
            "build_date",
            "compiler",
            "git_commit",
            "git_tree_state",
            "git_version",
            "go_version",
            "major",
            "minor",
            "platform",
        ],
    ),
];

/// Returns the labels of each metric family in a text, without `le`.
fn labels_of(text: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, labels) = line.split_once('{').unwrap_or((line.split(' ').next().unwrap_or_default(), ""));
        let suffix = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        let labels = labels.split("\",").filter_map(|label| label.split_once("=\"")).map(|(label, _)| label);
        found.entry(suffix.unwrap_or(name)).or_default().extend(labels.filter(|label| *label != "le"));
    }
    found
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(start_paused = true)]
async fn families_have_the_labels_of_the_original() {
    let api = Api::start().await;
    let before = api.get(CONFIG_MAPS).await.body["metadata"]["resourceVersion"].clone();
    api.create(CONFIG_MAPS, json!({"metadata": {"name": "one"}})).await;
    api.ask(Method::POST, CONFIG_MAPS, "{}", &[("authorization", "Bearer nobody")]).await;
    api.ask(Method::GET, CONFIG_MAPS, "", &[("authorization", "Bearer ann-token")]).await;
    let since = before.as_str().unwrap();
    api.get(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1&resourceVersion={since}")).await;
    let text = api.get("/metrics").await.text;
    let found = labels_of(&text);
    for (name, labels) in FAMILIES {
        let expected: BTreeSet<&str> = labels.iter().copied().collect();
        assert_eq!(found.get(name), Some(&expected), "{name}");
    }
    let is_there = |line: &str| assert!(text.lines().any(|shown| shown.starts_with(line)), "{line} in\n{text}");
    is_there(r#"apiserver_resource_objects{group="",resource="configmaps"}"#);
    is_there(r#"authentication_attempts{result="failure"} 1"#);
    is_there(r#"authorization_attempts_total{result="denied"} 1"#);
    is_there(r#"apiserver_watch_events_total{group="",resource="configmaps",version="v1"} 1"#);
    is_there(
        r#"apiserver_admission_controller_admission_duration_seconds_count{name="NamespaceLifecycle",operation="CREATE",rejected="false",type="admit"}"#,
    );
}

/// Names that clients invent do not become labels.
#[tokio::test(start_paused = true)]
async fn names_that_clients_make_up_are_not_counted_under() {
    let api = Api::start().await;
    let anonymous = [("authorization", "Bearer ann-token")];
    for path in ["/apis/made.up/v1/inventions", "/api/v1/inventions", "/api/v1/namespaces/default/pods/x/invention"] {
        let refused = api.ask(Method::GET, path, "", &anonymous).await;
        assert!(matches!(refused.code, 403 | 404), "{path}: {}", refused.code);
    }
    let method = Method::from_bytes(b"INVENT").unwrap();
    api.ask(method.clone(), "/version", "", &anonymous).await;
    api.ask(method, "/healthz", "", &[]).await; // this one is answered
    let text = api.get("/metrics").await.text;
    for invented in ["invention", "made.up", "INVENT"] {
        assert!(!text.contains(invented), "{invented}");
    }
    assert!(
        text.lines()
            .any(|line| line.starts_with("apiserver_request_total{code=\"403\"") && line.contains("resource=\"\""))
    );
}

#[tokio::test(start_paused = true)]
async fn answers_are_named_and_pages_of_welcome_origins_may_read_them() {
    let config = Config { cors_allowed_origins: vec!["^https://page\\.example$".into()], ..Config::default() };
    let api = Api::with(config).await;
    let mine = api.ask(Method::GET, "/version", "", &[("audit-id", "mine")]).await;
    assert_eq!(mine.headers["audit-id"], "mine");
    let (one, other) = (api.get("/version").await, api.get("/version").await);
    assert_ne!(one.headers["audit-id"], other.headers["audit-id"]);
    assert!(!one.headers.contains_key("access-control-allow-origin"));

    let preflight = [
        ("origin", "https://page.example"),
        ("access-control-request-method", "GET"),
        ("authorization", "Bearer nobody"),
    ];
    let asked = api.ask(Method::OPTIONS, CONFIG_MAPS, "", &preflight).await;
    assert_eq!((asked.code, &*asked.text), (204, ""));
    let read = api.ask(Method::GET, CONFIG_MAPS, "", &preflight[..1]).await;
    assert_eq!(
        (read.code, &read.headers["access-control-allow-origin"]),
        (200, &"https://page.example".parse().unwrap())
    );
    let strange = api
        .ask(Method::OPTIONS, CONFIG_MAPS, "", &[("origin", "https://page.example.org"), preflight[1], preflight[2]])
        .await;
    assert_eq!(strange.code, 401, "a stranger's page is treated as anybody");
}

#[tokio::test(start_paused = true)]
async fn pages_say_what_the_server_is_and_how_its_health_was() {
    let api = Api::start().await;
    assert_eq!(api.get("/readyz").await.code, 200);
    let slis = api.get("/metrics/slis").await.text;
    for line in [
        r#"kubernetes_healthcheck{name="etcd",type="readyz"} 1"#,
        r#"kubernetes_healthchecks_total{name="etcd",status="success",type="readyz"} 1"#,
    ] {
        assert!(slis.lines().any(|shown| shown == line), "{line} in\n{slis}");
    }
    let accept = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz";
    let statusz = api.get_as("/statusz", accept).await.body;
    assert_eq!((&statusz["kind"], &statusz["metadata"]["name"]), (&json!("Statusz"), &json!("kube-apiserver")));
    assert_eq!(statusz["paths"], json!(["/flagz", "/healthz", "/livez", "/metrics", "/readyz", "/version"]));
    let flagz = api.get("/flagz").await.text;
    assert!(flagz.starts_with("\nkube-apiserver flagz\nWarning: "), "{flagz}");
    assert!(flagz.lines().any(|line| line.starts_with("authorization-mode")), "{flagz}");
    let paths = api.get("/").await.body["paths"].clone();
    for path in ["/flagz", "/metrics/slis", "/statusz"] {
        assert!(paths.as_array().unwrap().contains(&json!(path)), "{path} in {paths}");
        let refused = api.ask(Method::GET, path, "", &[("authorization", "Bearer ann-token")]).await;
        assert_eq!(refused.code, 403, "{path}");
    }
    assert_eq!(api.get_as("/statusz", "application/json").await.code, 406);
}
