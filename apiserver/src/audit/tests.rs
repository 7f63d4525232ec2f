//! Tests of the events that a server records, and of requests that fail without their event.

use super::backend::Mode;
use super::options::AuditOptions;
use crate::config::Config;
use crate::testing::Api;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use component_base::env::Env;
use http::Method;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: None, nonResourceURLs: ['/readyz*', /metrics]}
- {level: Metadata, resources: [{resources: [secrets]}]}
- {level: RequestResponse, omitManagedFields: true, omitStages: [RequestReceived], resources: [{resources: [configmaps]}]}
- {level: Request, resources: [{resources: [namespaces]}]}
- {level: Metadata, omitStages: [RequestReceived]}
";

struct Audited {
    api: Api,
    folder: TempDir,
}

fn options(folder: &Path) -> AuditOptions {
    let policy = folder.join("policy.yaml");
    std::fs::write(&policy, POLICY).unwrap();
    AuditOptions {
        audit_policy_file: Some(policy),
        audit_log_path: Some(folder.join("audit.log")),
        ..Config::default().audit
    }
}

impl Audited {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let api = Api::with(Config { audit: options(folder.path()), ..Config::default() }).await;
        Self { api, folder }
    }

    /// Returns the recorded events of requests to a path.
    fn events(&self, path: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("audit.log")).unwrap();
        let events = text.lines().map(|line| serde_json::from_str(line).unwrap());
        events.filter(|event: &Value| event["requestURI"].as_str().unwrap().starts_with(path)).collect()
    }
}

/// Removes the ID and the times from an event.
fn bare(event: &Value) -> Value {
    let mut event = event.clone();
    for key in ["auditID", "requestReceivedTimestamp", "stageTimestamp"] {
        assert!(event[key].is_string(), "{event}");
        event.as_object_mut().unwrap().remove(key);
    }
    event
}

#[tokio::test(start_paused = true)]
async fn secrets_are_not_written_down() {
    let audited = Audited::start().await;
    let path = "/api/v1/namespaces/default/secrets";
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"p": BASE64.encode("hush")},
    });
    audited.api.create(path, secret).await;
    audited.api.get(&format!("{path}/s")).await;
    let events = audited.events(path);
    assert_eq!(events.len(), 4);
    let text = json!(events).to_string();
    assert!(!text.contains(&BASE64.encode("hush")) && !text.contains("requestObject"), "{text}");
    assert_eq!(
        bare(&events[1]),
        json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "stage": "ResponseComplete",
            "requestURI": path, "verb": "create",
            "user": {"username": "admin", "uid": "admin", "groups": ["system:masters", "system:authenticated"]},
            "objectRef": {"resource": "secrets", "namespace": "default", "name": "s", "apiVersion": "v1"},
            "responseStatus": {"metadata": {}, "code": 201},
            "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
        })
    );
    assert_eq!((&events[0]["stage"], &events[0]["auditID"]), (&json!("RequestReceived"), &events[1]["auditID"]));
}

#[tokio::test(start_paused = true)]
async fn objects_are_written_down_where_the_policy_says_so() {
    let audited = Audited::start().await;
    let path = "/api/v1/namespaces/default/configmaps";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}});
    audited.api.create(path, map.clone()).await;
    let events = audited.events(path);
    assert_eq!(events.len(), 1, "no RequestReceived");
    assert_eq!(events[0]["requestObject"], map);
    assert_eq!(events[0]["responseObject"]["data"], json!({"a": "1"}));
    assert_eq!(events[0]["responseObject"]["metadata"]["managedFields"], Value::Null);
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n";
    let answer = audited.api.ask(Method::POST, path, yaml, &[("content-type", "application/yaml")]).await;
    assert_eq!((answer.code, answer.body["metadata"]["name"].as_str()), (201, Some("other")), "{}", answer.text);
    assert_eq!(audited.events(path)[1]["requestObject"]["metadata"], json!({"name": "other"}));
    // The rule for namespaces records no answers.
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}});
    audited.api.create("/api/v1/namespaces", namespace).await;
    let events = audited.events("/api/v1/namespaces?");
    assert!(events.is_empty());
    let events: Vec<Value> =
        audited.events("/api/v1/namespaces").into_iter().filter(|e| e["requestURI"] == "/api/v1/namespaces").collect();
    assert_eq!(
        (&events[1]["requestObject"]["kind"], &events[1]["responseObject"]),
        (&json!("Namespace"), &Value::Null)
    );
}

#[tokio::test(start_paused = true)]
async fn refusals_say_who_and_why() {
    let audited = Audited::start().await;
    let path = "/api/v1/nodes";
    audited.api.ask(Method::GET, path, "", &[("authorization", "Bearer ann-token")]).await;
    audited.api.ask(Method::GET, path, "", &[("impersonate-user", "bob")]).await;
    audited.api.ask(Method::GET, path, "", &[("authorization", "Bearer of-nobody")]).await;
    let events = audited.events(path);
    let recorded: Vec<_> =
        events.iter().map(|e| (e["user"]["username"].as_str(), e["responseStatus"]["code"].as_u64())).collect();
    assert_eq!(recorded, [(Some("ann"), Some(403)), (Some("admin"), Some(403)), (None, Some(401))]);
    assert_eq!(events[0]["responseStatus"]["reason"], "Forbidden");
    assert_eq!(events[0]["annotations"]["authorization.k8s.io/decision"], "forbid");
    assert_eq!(events[1]["impersonatedUser"]["username"], "bob");
    assert_eq!(events[2]["stage"], "ResponseStarted");
}

#[tokio::test(start_paused = true)]
async fn a_watch_has_a_beginning_and_an_end() {
    let audited = Audited::start().await;
    let path = "/api/v1/pods?watch=1&timeoutSeconds=1";
    audited.api.get(path).await;
    let env = &audited.api.server.server.env;
    env.sleep(Duration::from_secs(1)).await;
    let stages: Vec<Value> = audited.events(path).iter().map(|event| event["stage"].clone()).collect();
    assert_eq!(stages, ["ResponseStarted", "ResponseComplete"]);
    let metrics = audited.api.get("/metrics").await.text;
    assert!(metrics.contains("\napiserver_audit_event_total "), "{metrics}");
    assert!(audited.events("/metrics").is_empty());
}

/// The log is `/dev/full`, where every write fails.
#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn what_cannot_be_written_down_is_refused_in_strict_mode_alone() {
    for (mode, expected) in [(Mode::Blocking, 201), (Mode::BlockingStrict, 500)] {
        let folder = tempfile::tempdir().unwrap();
        let audit =
            AuditOptions { audit_log_path: Some("/dev/full".into()), audit_log_mode: mode, ..options(folder.path()) };
        let api = Api::with(Config { audit, ..Config::default() }).await;
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
        let path = "/api/v1/namespaces/default/secrets";
        let answer = api.post(path, secret).await;
        assert_eq!(answer.code, expected, "{mode:?}");
        if expected == 500 {
            assert_eq!(answer.text, format!("Internal Server Error: {path:?}: failed to store audit event\n"));
            let metrics = api.get("/metrics").await.text;
            assert!(metrics.contains("\napiserver_audit_requests_rejected_total 1\n"), "{metrics}");
            // The secret was not created.
            assert!(api.server.server.registry.row_of("", "secrets").unwrap().1.cacher.snapshot().unwrap().is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn batches_are_written_when_they_are_full_or_old_or_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let audit = AuditOptions {
        audit_log_mode: Mode::Batch,
        audit_log_batch_max_size: 3,
        audit_log_batch_max_wait: Duration::from_secs(5),
        ..options(folder.path())
    };
    let env = Env::simulated(1);
    let storage = storage::memory::Memory::new(&env);
    let api = Api::on(&env, storage, Config { audit, ..Config::default() }).await;
    let audited = Audited { api, folder };
    let path = "/api/v1/pods";
    let count = || audited.events(path).len();
    for _ in 0..4 {
        audited.api.get(path).await;
    }
    env.sleep(Duration::from_secs(1)).await;
    assert_eq!(count(), 3, "a full one");
    env.sleep(Duration::from_secs(5)).await;
    assert_eq!(count(), 4, "an old one");
    audited.api.get(path).await;
    audited.api.server.server.records.audit.as_ref().unwrap().close().await;
    assert_eq!(count(), 5, "the last one");
}

/// The webhook fails once, and gets the same list again.
#[tokio::test(start_paused = true)]
async fn a_webhook_gets_lists_and_is_tried_again() {
    use axum::body::{Body, to_bytes};
    use component_base::network::{HttpService, Network};
    use http::{Request, Response};
    use parking_lot::Mutex;
    use std::convert::Infallible;
    use std::sync::Arc;
    let env = Env::simulated(1);
    let got: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
    let seen = got.clone();
    let service = HttpService::new(tower::service_fn(move |request: Request<Body>| {
        let seen = seen.clone();
        async move {
            let path = request.uri().path().to_owned();
            let body = to_bytes(request.into_body(), usize::MAX).await.unwrap();
            let list = serde_json::from_slice(&body).unwrap();
            let code = if seen.lock().is_empty() { 503 } else { 200 };
            seen.lock().push((path, list));
            let mut response = Response::new(Body::empty());
            *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
            Ok::<_, Infallible>(response)
        }
    }));
    let Network::InProcess(network) = env.network() else { panic!("a simulation") };
    network.register("audit.example:443", service);
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("webhook.yaml");
    std::fs::write(
        &config,
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: a, user: u}}],
          clusters: [{name: a, cluster: {server: 'https://audit.example:443/sink'}}], users: [{name: u, user: {}}]}",
    )
    .unwrap();
    let audit = AuditOptions {
        audit_log_path: None,
        audit_webhook_config_file: Some(config),
        audit_webhook_batch_max_wait: Duration::from_secs(1),
        ..options(folder.path())
    };
    let storage = storage::memory::Memory::new(&env);
    let api = Api::on(&env, storage, Config { audit, ..Config::default() }).await;
    api.get("/api/v1/pods").await;
    env.sleep(Duration::from_secs(5)).await;
    assert_eq!(got.lock().len(), 1, "it failed, and waits");
    env.sleep(Duration::from_secs(10)).await;
    let got = got.lock();
    assert_eq!(got.len(), 2);
    assert_eq!(got[0], got[1], "the same again");
    let (path, list) = &got[1];
    assert_eq!(
        (path.as_str(), &list["kind"], &list["items"][0]["requestURI"]),
        ("/sink", &json!("EventList"), &json!("/api/v1/pods"))
    );
}
