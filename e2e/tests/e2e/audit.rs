//! Tests audit events of a policy with all levels, in a rotated log and at a webhook that is unavailable at first.

use crate::{program, webhook_server};
use axum::body::{Body, to_bytes};
use component_base::env::Env;
use component_base::kubeconfig::{self, Connection};
use component_base::network::HttpService;
use component_base::pki::Authority;
use e2e::apiserver::ApiServer;
use e2e::kubectl::Kubectl;
use e2e::raw_request::RawRequest;
use e2e::store::Store;
use http::{Request, Response, StatusCode};
use orrery::up::data_dir::DataDir;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

/// An audit policy. Its last rule matches everything, so that only the server keeps the content of Secrets out of the
/// log.
const POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
rules:
- {level: None, nonResourceURLs: ['*']}
- {level: None, users: ['system:apiserver']}
- {level: Metadata, omitStages: [RequestReceived], resources: [{group: rbac.authorization.k8s.io}]}
- {level: Request, resources: [{resources: [namespaces]}]}
- {level: RequestResponse, omitManagedFields: false, omitStages: [RequestReceived], namespaces: [managed]}
- {level: RequestResponse, omitStages: [RequestReceived]}
";
/// Content of the Secrets.
const WORD: &str = "a-word-that-nobody-reads";
/// Number of failures of the webhook before it succeeds.
const REFUSALS: usize = 3;
/// Largest size of an event for the webhook. Larger ones are truncated there, but not in the log.
const MAX_EVENT_BYTES: usize = 20_000;

type Events = Arc<Mutex<Vec<Value>>>;

/// Starts a webhook that fails at first and then collects events. Returns its kubeconfig and the events.
async fn collector(env: &Env, authority: &Authority, directory: &Path) -> (String, Events) {
    let events = Events::default();
    let (collected, refused) = (events.clone(), Arc::new(Mutex::new(0)));
    let service = HttpService::new(tower::service_fn(move |request: Request<Body>| {
        let (collected, refused) = (collected.clone(), refused.clone());
        async move {
            let body = to_bytes(request.into_body(), usize::MAX).await.unwrap();
            let is_unavailable = *refused.lock() < REFUSALS;
            if is_unavailable {
                *refused.lock() += 1;
            } else {
                let list: Value = serde_json::from_slice(&body).unwrap();
                assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("EventList"), &json!("audit.k8s.io/v1")));
                collected.lock().extend(list["items"].as_array().unwrap().iter().cloned());
            }
            let mut response = Response::new(Body::empty());
            *response.status_mut() = if is_unavailable { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
            Ok::<_, Infallible>(response)
        }
    }));
    let address = webhook_server::serve(env, authority, service).await;
    let server = format!("https://{address}/audit");
    let connection = Connection { server, ca_pem: Some(authority.cert_pem.clone()), ..Connection::default() };
    let path = directory.join("collector");
    kubeconfig::write(&path, &connection, "collector", "apiserver").unwrap();
    (path.display().to_string(), events)
}

/// Returns the events of each log file: the rotated files first, then the present one.
fn logs(directory: &Path) -> Vec<Vec<Value>> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    paths.sort();
    let read = |path| std::fs::read_to_string(path).unwrap();
    paths.iter().map(|path| read(path).lines().map(|line| serde_json::from_str(line).unwrap()).collect()).collect()
}

/// Checks that an event has the required fields.
fn check(event: &Value) {
    assert_eq!((&event["kind"], &event["apiVersion"]), (&json!("Event"), &json!("audit.k8s.io/v1")), "{event}");
    let level = event["level"].as_str().unwrap();
    assert!(["Metadata", "Request", "RequestResponse"].contains(&level), "{event}");
    assert!(["RequestReceived", "ResponseStarted", "ResponseComplete"].contains(&event["stage"].as_str().unwrap()));
    for text in ["auditID", "requestURI", "verb"] {
        assert!(event[text].as_str().is_some_and(|text| !text.is_empty()), "{text}: {event}");
    }
    for time in ["requestReceivedTimestamp", "stageTimestamp"] {
        let time = event[time].as_str().unwrap();
        assert!(time.parse::<jiff::Timestamp>().is_ok() && time.len() == "2026-01-01T00:00:00.000000Z".len(), "{time}");
    }
    assert_eq!(event["sourceIPs"], json!(["127.0.0.1"]), "{event}");
    assert!(event["user"].is_object(), "{event}");
    let objects = (event["requestObject"].is_null(), event["responseObject"].is_null());
    match level {
        "Metadata" => assert_eq!(objects, (true, true), "{event}"),
        "Request" => assert!(objects.1, "{event}"),
        _ => {}
    }
    if event["stage"] != "RequestReceived" {
        assert!(event["responseStatus"]["code"].is_u64(), "{event}");
    }
}

/// Returns the `ResponseComplete` event of the last request with a verb to a path.
#[track_caller]
fn last<'a>(events: &'a [Value], verb: &str, path: &str) -> &'a Value {
    let is = |event: &&Value| {
        let uri = event["requestURI"].as_str().unwrap();
        event["verb"] == verb && uri.split('?').next() == Some(path) && event["stage"] == "ResponseComplete"
    };
    events.iter().rfind(is).unwrap_or_else(|| panic!("no event of {verb} {path}"))
}

fn policies() -> String {
    let api = "admissionregistration.k8s.io/v1";
    let policy = json!({
        "apiVersion": api, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "owners"},
        "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]},
            ]},
            "validations": [{"expression": "!object.metadata.name.startsWith('bad')", "message": "it is bad"}],
            "auditAnnotations": [{"key": "name", "valueExpression": "'is ' + object.metadata.name"}],
        },
    });
    let binding = json!({
        "apiVersion": api, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "owners"},
        "spec": {"policyName": "owners", "validationActions": ["Audit"]},
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]}).to_string()
}

/// Sends requests that fall under each rule of the policy.
fn send_requests(kubectl: &Kubectl) {
    kubectl.with_input("apply -f -", &policies()).succeeded();
    kubectl.ok("create namespace managed");
    kubectl.ok("label namespace managed pod-security.kubernetes.io/audit=baseline");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "open", "namespace": "managed"},
        "spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "i"}]},
    });
    kubectl.ok("-n managed create serviceaccount default");
    kubectl.with_input("create -f -", &pod.to_string()).succeeded();
    kubectl.ok("create configmap bad --from-literal=a=1");
    kubectl.ok("create configmap good --from-literal=a=1");
    kubectl.ok(&format!("create secret generic s --from-literal=p={WORD}"));
    kubectl.ok("get secrets -o yaml");
    kubectl.ok_args(&["patch", "secret", "s", "-p", &json!({"stringData": {"q": WORD}}).to_string()]);
    kubectl.ok("create serviceaccount robot");
    kubectl.ok("create token robot");
    kubectl.ok("create clusterrole nobody --verb=get --resource=pods");
    kubectl.fails("get nodes --as=ann --as-group=dev");
    kubectl.ok("delete configmap good");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_events_are_logged_and_sent() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::system().child();
    let authority = Authority::load_or_create(&directory.path().join("collector-ca"), env.wall()).unwrap();
    let (collector, received) = collector(&env, &authority, directory.path()).await;
    let audit = directory.path().join("audit");
    std::fs::create_dir(&audit).unwrap();
    std::fs::write(directory.path().join("policy.yaml"), POLICY).unwrap();
    let flags = [
        format!("--audit-policy-file={}", directory.path().join("policy.yaml").display()),
        format!("--audit-log-path={}", audit.join("audit.log").display()),
        "--audit-log-maxsize=1".to_owned(),
        format!("--audit-webhook-config-file={collector}"),
        "--audit-webhook-initial-backoff=100ms".to_owned(),
        "--audit-webhook-batch-max-wait=200ms".to_owned(),
        "--audit-webhook-truncate-enabled=true".to_owned(),
        format!("--audit-webhook-truncate-max-event-size={MAX_EVENT_BYTES}"),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let data_dir = Arc::new(DataDir::open(&directory.path().join("data")).unwrap());
    let mut server = ApiServer::start_in(program(), data_dir, Store::Memory, &flags).await;
    let kubectl = Kubectl::new(&server.data_dir.pki_of("admin").join("kubeconfig"), directory.path());
    send_requests(&kubectl);
    // Large objects fill the log.
    let client = server.client(&server.admin);
    for number in 0..4 {
        let map = json!({"metadata": {"name": format!("large{number}")}, "data": {"a": "x".repeat(200_000)}});
        let created =
            RawRequest::post("/api/v1/namespaces/default/configmaps", map.to_string()).send(&client).await.unwrap();
        assert_eq!(created.code, 201, "{}", created.text);
    }
    server.stop();

    let logs = logs(&audit);
    assert!(logs.len() > 1, "it was rotated");
    let events: Vec<Value> = logs.concat();
    events.iter().for_each(check);
    levels(&events);
    annotations(&events);
    // Tokens begin with `eyJ`.
    let leaks = |event: &&Value| [WORD, "\"eyJ"].iter().any(|secret| event.to_string().contains(secret));
    assert_eq!(events.iter().find(leaks), None, "a secret is written down");

    // The webhook got the same events, each once, although it was unavailable.
    let received = received.lock().clone();
    let key = |event: &Value| (event["auditID"].to_string(), event["stage"].to_string());
    let unique: BTreeSet<_> = received.iter().map(key).collect();
    assert_eq!(unique.len(), received.len(), "something came twice");
    assert_eq!(unique, events.iter().map(key).collect());
    let whole: BTreeMap<_, _> = events.iter().map(|event| (key(event), event)).collect();
    for event in &received {
        check(event);
        if event["annotations"]["audit.k8s.io/truncated"] == "true" {
            assert!(whole[&key(event)].to_string().len() > MAX_EVENT_BYTES, "{event}");
            assert_eq!((&event["requestObject"], &event["responseObject"]), (&Value::Null, &Value::Null), "{event}");
        } else {
            assert_eq!(event, whole[&key(event)]);
        }
    }
    let cut = last(&received, "create", "/api/v1/namespaces/default/configmaps");
    assert_eq!(cut["annotations"]["audit.k8s.io/truncated"], "true", "{cut}");
    env.drain().await;
}

/// Checks the level of each rule of the policy.
fn levels(events: &[Value]) {
    assert!(events.iter().all(|event| event["objectRef"].is_object()), "nothing of paths without resources");
    let of = |verb, path| last(events, verb, path);
    let namespace = of("create", "/api/v1/namespaces");
    assert_eq!((&namespace["level"], &namespace["requestObject"]["kind"]), (&json!("Request"), &json!("Namespace")));
    let id = &namespace["auditID"];
    let stages: Vec<&Value> =
        events.iter().filter(|event| event["auditID"] == *id).map(|event| &event["stage"]).collect();
    assert_eq!(stages, ["RequestReceived", "ResponseComplete"]);
    let role = of("create", "/apis/rbac.authorization.k8s.io/v1/clusterroles");
    assert_eq!((&role["level"], &role["objectRef"]["name"]), (&json!("Metadata"), &json!("nobody")));
    let map = of("delete", "/api/v1/namespaces/default/configmaps/good");
    assert_eq!((&map["level"], &map["responseObject"]["status"]), (&json!("RequestResponse"), &json!("Success")));
    assert_eq!(map["requestObject"]["propagationPolicy"], "Background", "{map}");
    for (verb, path) in [
        ("create", "/api/v1/namespaces/default/secrets"),
        ("list", "/api/v1/namespaces/default/secrets"),
        ("patch", "/api/v1/namespaces/default/secrets/s"),
        ("create", "/api/v1/namespaces/default/serviceaccounts/robot/token"),
    ] {
        assert_eq!(of(verb, path)["level"], "Metadata", "{verb} {path}");
    }
    let managed = |event: &Value| event["responseObject"]["metadata"]["managedFields"].is_array();
    let pod = of("create", "/api/v1/namespaces/managed/pods");
    assert!(managed(pod), "{pod}");
    assert!(!managed(of("create", "/api/v1/namespaces/default/serviceaccounts")), "they are left out elsewhere");
    let refused = of("list", "/api/v1/nodes");
    assert_eq!(
        (&refused["user"]["username"], &refused["impersonatedUser"]),
        (&json!("kubernetes-admin"), &json!({"username": "ann", "groups": ["dev", "system:authenticated"]}),)
    );
    assert_eq!(
        (&refused["responseStatus"]["code"], &refused["responseStatus"]["reason"]),
        (&json!(403), &json!("Forbidden"))
    );
}

/// Checks the annotations of authorization, pod security and admission policies.
fn annotations(events: &[Value]) {
    let of = |verb, path| &last(events, verb, path)["annotations"];
    let decision = |annotations: &Value| annotations["authorization.k8s.io/decision"].clone();
    assert_eq!(decision(of("create", "/api/v1/namespaces/managed/pods")), "allow");
    assert_eq!(decision(of("list", "/api/v1/nodes")), "forbid");
    let pod = of("create", "/api/v1/namespaces/managed/pods");
    let violations = pod["pod-security.kubernetes.io/audit-violations"].as_str().unwrap_or_default();
    assert!(violations.contains(r#"would violate PodSecurity "baseline:latest": host namespaces"#), "{pod}");
    assert_eq!(pod["pod-security.kubernetes.io/enforce-policy"], "privileged:latest");
    let bad = |event: &&Value| event["requestObject"]["metadata"]["name"] == "bad" && event["verb"] == "create";
    let maps = || events.iter().filter(|event| event["objectRef"]["resource"] == "configmaps");
    let Some(bad) = maps().rfind(bad) else { panic!("{:?}", maps().map(Value::to_string).collect::<Vec<_>>()) };
    let bad = &bad["annotations"];
    assert_eq!(bad["owners/name"], "is bad", "{bad}");
    let failures: Value =
        serde_json::from_str(bad["validation.policy.admission.k8s.io/validation_failure"].as_str().unwrap()).unwrap();
    assert_eq!((&failures[0]["policy"], &failures[0]["message"]), (&json!("owners"), &json!("it is bad")));
}
