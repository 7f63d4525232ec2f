//! Compares the pages of `orrery trace request` with expected ones, and checks the permission to read them.
//!
//! `PAGES=overwrite` replaces the expected pages, for a review before the commit.

use crate::{program, webhook_server};
use axum::body::{Body, to_bytes};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use client::Client;
use component_base::env::Env;
use component_base::network::HttpService;
use component_base::pki::Authority;
use e2e::apiserver::ApiServer;
use e2e::kubectl::Kubectl;
use e2e::raw_request::RawRequest;
use e2e::store::Store;
use e2e::wait;
use http::{Request, Response};
use orrery::admin_kubeconfig;
use orrery::up::data_dir::DataDir;
use parking_lot::Mutex;
use regex::Regex;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tokio::sync::Notify;

const PAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/request_traces");

/// Values that differ between runs, with their placeholders.
const VARYING: &[(&str, &str)] = &[
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
    (r"\d+\.\d\d ms", "<duration>"),
    (r"at revision \d+", "at revision <n>"),
    (r"kube-api-access-\w{5}", "kube-api-access-<id>"),
];

const SHOP: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: shop}
---
apiVersion: v1
kind: LimitRange
metadata: {name: small, namespace: shop}
spec: {limits: [{type: Container, default: {memory: 64Mi}}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: pods, namespace: shop}
spec: {hard: {pods: "5"}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ann-edits, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: stamp}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: "Object{metadata: Object.metadata{labels: {'owner': request.userInfo.username}}}"
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: stamp-here}
spec: {policyName: stamp}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: known-images}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  validations:
  - {expression: "object.spec.containers.all(c, c.image.startsWith('nginx'))", message: only nginx runs here}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: known-images-here}
spec: {policyName: known-images, validationActions: [Deny]}
"#;

const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {containers: [{name: web, image: nginx}]}
"#;

/// A namespace with two editors, a narrow priority level for their ConfigMaps, and admission policies.
const MARKET: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: market}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: edits, namespace: market}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: ben}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: narrow}
spec:
  type: Limited
  limited: {nominalConcurrencyShares: 0, borrowingLimitPercent: 0, limitResponse: {type: Reject}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: notes}
spec:
  matchingPrecedence: 2
  priorityLevelConfiguration: {name: narrow}
  rules:
  - subjects: [{kind: User, user: {name: ann}}]
    resourceRules: [{apiGroups: [""], resources: [configmaps], verbs: [list], namespaces: ["*"]}]
  - subjects: [{kind: User, user: {name: ben}}]
    resourceRules: [{apiGroups: [""], resources: [configmaps], verbs: [create], namespaces: ["*"]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: stamp}
spec:
  failurePolicy: Ignore
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  reinvocationPolicy: Never
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: "[JSONPatch{op: 'add', path: '/data', value: {'shelf': object.metadata.labels['shelf']}}]"
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: stamp-here}
spec: {policyName: stamp}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: known-shelves}
spec:
  failurePolicy: Ignore
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  validations:
  - {expression: "object.metadata.labels['shelf'] != ''"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: known-shelves-here}
spec: {policyName: known-shelves, validationActions: [Deny]}
---
apiVersion: v1
kind: Service
metadata: {name: hooks, namespace: default, annotations: {orrery.dev/service-endpoint: "ENDPOINT"}}
spec: {ports: [{port: 443}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: hooks}
webhooks:
- name: gone.example.com
  clientConfig: {url: "https://127.0.0.1:1/"}
  sideEffects: None
  failurePolicy: Ignore
  admissionReviewVersions: [v1]
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
- name: choosy.example.com
  clientConfig: {url: "https://127.0.0.1:1/"}
  sideEffects: None
  failurePolicy: Ignore
  admissionReviewVersions: [v1]
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  matchConditions: [{name: on-a-shelf, expression: "object.metadata.labels['shelf'] != ''"}]
- name: patient.example.com
  clientConfig: {service: {namespace: default, name: hooks, path: /patient}, caBundle: "BUNDLE"}
  sideEffects: None
  failurePolicy: Fail
  timeoutSeconds: 30
  admissionReviewVersions: [v1]
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  matchConditions: [{name: by-ben, expression: "request.userInfo.username == 'ben'"}]
- name: slow.example.com
  clientConfig: {service: {namespace: default, name: hooks, path: /slow}, caBundle: "BUNDLE"}
  sideEffects: None
  failurePolicy: Fail
  admissionReviewVersions: [v1]
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [configmaps]}]
  matchConditions: [{name: by-ann, expression: "request.userInfo.username == 'ann'"}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.weather.example}
spec:
  group: weather.example
  version: v1
  groupPriorityMinimum: 1000
  versionPriority: 15
  service: {namespace: default, name: hooks}
  caBundle: "BUNDLE"
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.tide.example}
spec:
  group: tide.example
  version: v1
  groupPriorityMinimum: 1000
  versionPriority: 15
  service: {namespace: default, name: nobody}
  caBundle: "BUNDLE"
"#;

const NOTE: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: note, namespace: market}
data: {apples: "1"}
"#;

/// A server that traces requests, and the administrator's kubectl and kubeconfig.
struct TracedServer {
    server: ApiServer,
    kubeconfig: PathBuf,
    kubectl: Kubectl,
}

impl TracedServer {
    async fn start(directory: &Path, flags: &[&str]) -> Self {
        let data_dir = Arc::new(DataDir::open(&directory.join("data")).unwrap());
        let server = ApiServer::start_in(program(), data_dir, Store::Memory, flags).await;
        let kubeconfig = directory.join("kubeconfig");
        admin_kubeconfig::write(&kubeconfig, &server.admin, "orrery").unwrap();
        let kubectl = Kubectl::new(&kubeconfig, directory);
        Self { server, kubeconfig, kubectl }
    }

    /// Runs `orrery trace request`; returns its output or its error.
    fn request(&self, arguments: &str) -> (bool, String) {
        let mut command = Command::new(program());
        command.args(["trace", "request", "--kubeconfig"]).arg(&self.kubeconfig).args(arguments.split_whitespace());
        let output = command.output().unwrap();
        let printed = if output.status.success() { output.stdout } else { output.stderr };
        (output.status.success(), String::from_utf8(printed).unwrap())
    }

    /// Runs `orrery trace request`, and compares its page with the expected one.
    fn page(&self, name: &str, arguments: &str) {
        let (success, page) = self.request(arguments);
        assert!(success, "{page}");
        let masked = VARYING.iter().fold(page, |page, (pattern, word)| {
            Regex::new(pattern).expect("the table is well-formed").replace_all(&page, *word).into_owned()
        });
        let file = Path::new(PAGES).join(format!("{name}.txt"));
        if std::env::var_os("PAGES").is_some_and(|wish| wish == "overwrite") {
            fs::write(&file, &masked).unwrap();
        }
        assert_eq!(masked, fs::read_to_string(&file).unwrap_or_default(), "{name}");
    }
}

#[tokio::test]
async fn pages_show_the_stages_of_a_request() {
    let directory = tempfile::tempdir().unwrap();
    let mut traced = TracedServer::start(directory.path(), &["--enable-request-trace"]).await;
    traced.kubectl.with_input("apply -f -", SHOP).succeeded();
    let pod = directory.path().join("pod.yaml");
    fs::write(&pod, POD).unwrap();
    let foreign = directory.path().join("foreign.yaml");
    fs::write(&foreign, POD.replace("nginx", "malware")).unwrap();
    let (pod, foreign) = (pod.display(), foreign.display());
    let refused = format!("create -f {foreign} --dry-run=server");
    wait::until("the policies are in force", || !traced.kubectl.run(&refused).success);

    traced.page("create", &format!("create -f {pod} --as=ann"));
    traced.page("refused_by_policy", &format!("create -f {foreign} --as=ann --dry-run"));
    traced.page("forbidden", "get secrets -n kube-system --as=ann --as-group=developers");
    traced.page("list", "get pods -n shop --as=ann");
    traced.page("unknown", "get pods -n shop --token=wrong");
    traced.page("delete", "delete pods/web -n shop");

    // The traces are readable with kubectl too, and by ID.
    let kept: Value = serde_json::from_str(&traced.kubectl.ok("get --raw /debug/requests")).unwrap();
    let id = kept["items"][0]["auditID"].as_str().unwrap();
    let trace: Value = serde_json::from_str(&traced.kubectl.ok(&format!("get --raw /debug/requests/{id}"))).unwrap();
    assert_eq!(trace["request"]["method"], "DELETE");
    let (_, by_id) = traced.request(id);
    assert!(by_id.starts_with("DELETE /api/v1/namespaces/shop/pods/web\n"), "{by_id}");
    let (_, listed) = traced.request("");
    assert_eq!(listed.lines().count(), 6, "{listed}");
    assert!(listed.lines().next().unwrap().starts_with(id), "{listed}");
    for path in ["/debug/requests", &format!("/debug/requests/{id}")] {
        let refused = traced.kubectl.fails(&format!("get --raw {path} --as=ann"));
        assert!(refused.contains("User \"ann\" cannot get path"), "{refused}");
    }
    let (success, why) = traced.request("3fd0a2c1");
    assert!(!success && why.contains("3fd0a2c1: no trace of it is kept"), "{why}");
    // Arguments like those of `kubectl create`.
    let (success, made) = traced.request("create deployment shop --image=nginx -n shop --as=ann --dry-run");
    assert!(success && made.starts_with("POST /apis/apps/v1/namespaces/shop/deployments"), "{made}");
    let (success, why) = traced.request("create quota q -n shop");
    assert!(!success && why.contains("write `kubectl create quota … --dry-run=client -o yaml |"), "{why}");
    traced.server.stop();
}

#[tokio::test]
async fn a_server_that_traces_nothing_names_the_flag() {
    let directory = tempfile::tempdir().unwrap();
    let mut traced = TracedServer::start(directory.path(), &["--enable-request-trace=false"]).await;
    for arguments in ["", "get /version"] {
        let (success, why) = traced.request(arguments);
        assert!(!success && why.contains("--enable-request-trace"), "{why}");
    }
    traced.server.stop();
}

const NOTES: &str = "/api/v1/namespaces/market/configmaps";

/// Actions that webhooks perform before they answer.
#[derive(Default)]
struct WebhookActions {
    /// Client with which the webhook `/slow` changes the object, at its first call only.
    other_writer: Mutex<Option<Client>>,
    /// Notified when the webhook `/patient` is called.
    called: Notify,
    /// The webhook `/patient` waits for this before it answers.
    may_answer: Notify,
}

impl WebhookActions {
    async fn perform(&self, path: &str) {
        let writer = self.other_writer.lock().take_if(|_| path == "/slow");
        if let Some(writer) = writer {
            let patch = RawRequest::patch(&format!("{NOTES}/note"), "application/merge-patch+json", PEARS);
            assert_eq!(patch.send(&writer).await.unwrap().code, 200);
        }
        if path == "/patient" {
            self.called.notify_one();
            self.may_answer.notified().await;
        }
    }
}

/// Returns a service that is both the server of an aggregated group and two webhooks.
fn weather_and_webhooks(actions: Arc<WebhookActions>) -> HttpService {
    HttpService::new(tower::service_fn(move |request: Request<Body>| {
        let actions = actions.clone();
        async move {
            let answer = match request.uri().path() {
                path @ ("/slow" | "/patient") => {
                    actions.perform(path).await;
                    let body = to_bytes(request.into_body(), usize::MAX).await.unwrap();
                    let review: Value = serde_json::from_slice(&body).unwrap();
                    let response = json!({"uid": review["request"]["uid"], "allowed": true});
                    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
                }
                path if path.ends_with("/reports") => {
                    json!({"apiVersion": "weather.example/v1", "kind": "ReportList", "metadata": {}, "items": []})
                }
                _ => json!({
                    "apiVersion": "v1", "kind": "APIResourceList", "groupVersion": "weather.example/v1",
                    "resources": [{"name": "reports", "kind": "Report", "namespaced": false, "verbs": ["list"]}],
                }),
            };
            let answer = Response::builder().header("content-type", "application/json").body(answer.to_string().into());
            Ok::<_, Infallible>(answer.unwrap())
        }
    }))
}

const PEARS: &str = r#"{"data": {"pears": "2"}}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_show_waits_conflicts_and_ignored_failures() {
    let directory = tempfile::tempdir().unwrap();
    let mut traced = TracedServer::start(directory.path(), &["--enable-request-trace"]).await;
    let env = Env::system().child();
    let authority = Authority::load_or_create(&directory.path().join("hooks"), env.wall()).unwrap();
    let actions = Arc::new(WebhookActions::default());
    let address = webhook_server::serve(&env, &authority, weather_and_webhooks(actions.clone())).await;
    let market =
        MARKET.replace("ENDPOINT", &address.to_string()).replace("BUNDLE", &BASE64.encode(&authority.cert_pem));
    traced.kubectl.with_input("apply -f -", &market).succeeded();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let note = write("note.yaml", NOTE);
    let until = |arguments: &str, said: &str| wait::until(said, || traced.request(arguments).1.contains(said));
    until(&format!("create -f {note} --as=ann --dry-run"), "policy known-shelves by known-shelves-here");
    until(&format!("create -f {note} --as=ann --dry-run"), "policy stamp by stamp-here");
    until("get configmaps -n market --as=ann", "FlowSchema notes");
    until("get /apis/weather.example/v1/reports", "answers 200");

    traced.page("overlooked", &format!("create -f {note} --as=ann"));
    traced.page("aggregated", "get /apis/weather.example/v1/reports");
    traced.page("not_available", "get /apis/tide.example/v1/reports");

    let client = traced.server.client(&traced.server.admin);
    let ben = client.impersonating("ben", &[]);
    let first = async {
        let other = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}}"#;
        assert_eq!(RawRequest::post(NOTES, other).send(&ben).await.unwrap().code, 201);
    };
    let second = async {
        actions.called.notified().await;
        traced.page("no_room", "get configmaps -n market --as=ann");
        actions.may_answer.notify_one();
    };
    futures::future::join(first, second).await;
    let old = RawRequest::get(&format!("{NOTES}/note")).send(&client).await.unwrap().text;
    *actions.other_writer.lock() = Some(client);
    traced.page(
        "outrun",
        &format!("apply -f {} --as=ann", write("more.yaml", &NOTE.replace("apples: \"1\"", "plums: \"3\""))),
    );
    let found = traced.kubectl.ok("get configmap note -n market -o jsonpath={.data}");
    assert_eq!(found, r#"{"apples":"1","pears":"2","plums":"3"}"#);
    traced.page("too_late", &format!("replace -f {} --as=ann", write("old.json", &old)));
    traced.server.stop();
    env.drain().await;
}
