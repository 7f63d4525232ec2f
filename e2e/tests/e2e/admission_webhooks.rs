//! Tests admission webhooks, by URL and behind a Service: some mutate or refuse objects, and others hang, send wrong
//! answers, call the server again, or are down.

use crate::program;
use crate::webhook_server::{serve, service};
use axum::body::{Body, to_bytes};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use client::{Client, Error};
use component_base::env::Env;
use component_base::kubeconfig;
use component_base::network::HttpService;
use component_base::pki::Authority;
use e2e::apiserver::ApiServer;
use e2e::kubectl::{Kubectl, Printed};
use e2e::store::Store;
use e2e::wait;
use http::{Request, Response};
use proto::Gvr;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Label of an object with the name of the webhook that reviews it.
const LABEL: &str = "hook";

/// The administrator's client. It is set once the server runs, which is after the webhooks.
type Admin = Arc<OnceLock<Client>>;

fn map(name: &str, hook: &str) -> Value {
    let labels = json!({LABEL: hook});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {"a": "1"}})
}

fn reviewed(review: &Value, mut response: Value) -> String {
    response["uid"] = review["request"]["uid"].clone();
    json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}).to_string()
}

fn patched(review: &Value, path: &str, value: &Value) -> String {
    let patch = BASE64.encode(json!([{"op": "add", "path": path, "value": value}]).to_string());
    reviewed(review, json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

fn denied(review: &Value, why: &str) -> String {
    let status = json!({"code": 403, "reason": "Forbidden", "message": why});
    reviewed(review, json!({"allowed": false, "status": status, "warnings": ["think again"]}))
}

/// Answers a review. The path selects the webhook's behaviour.
async fn answer(env: Env, admin: Admin, request: Request<Body>) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let bytes = to_bytes(request.into_body(), 1 << 20).await.unwrap_or_default();
    let review: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let text = match path.as_str() {
        "/fill" => patched(&review, "/data/dry", &json!(review["request"]["dryRun"].to_string())),
        "/misfit" => patched(&review, "/nowhere/else", &json!("x")),
        "/hang" => {
            env.shutdown().cancelled().await;
            String::new()
        }
        "/uid" => reviewed(&json!({"apiVersion": "admission.k8s.io/v1"}), json!({"allowed": true})),
        "/garbage" => "gone fishing".to_owned(),
        "/loop" => {
            let maps = admin.get().unwrap().dynamic(&Gvr::new("", "v1", "configmaps"), "default");
            let mut another = map("", "loop");
            another["metadata"]["generateName"] = json!("loop-");
            another["metadata"].as_object_mut().unwrap().remove("name");
            match maps.create(&another).await {
                Ok(_) => reviewed(&review, json!({"allowed": true})),
                Err(Error::Status(status)) => denied(&review, &status.message),
                Err(error) => denied(&review, &error.to_string()),
            }
        }
        _ => denied(&review, &format!("{path} says no")),
    };
    Ok(Response::new(Body::from(text)))
}

/// Returns a webhook that reviews the ConfigMaps whose label has its name.
fn webhook(name: &str, client: Value, failure_policy: &str) -> Value {
    json!({
        "name": format!("{name}.hooks.test"), "clientConfig": client, "failurePolicy": failure_policy,
        "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 1,
        "objectSelector": {"matchLabels": {LABEL: name}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
    })
}

fn configuration(kind: &str, webhooks: &[Value]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": "hooks"}, "webhooks": webhooks,
    })
}

/// The administrator's kubectl, and the folder of its files.
struct Admission {
    kubectl: Kubectl,
    directory: PathBuf,
}

impl Admission {
    fn file(&self, name: &str, object: &Value) -> String {
        let file = self.directory.join(name);
        std::fs::write(&file, object.to_string()).unwrap();
        file.display().to_string()
    }

    /// Creates a ConfigMap that this webhook reviews.
    fn create(&self, hook: &str, flags: &str) -> Printed {
        let file = self.file("map.json", &map(&format!("map-{hook}"), hook));
        self.kubectl.run(&format!("create -f {file} {flags}"))
    }

    fn configure(&self, kind: &str, webhooks: &[Value]) {
        let file = self.file("configuration.json", &configuration(kind, webhooks));
        self.kubectl.ok(&format!("apply -f {file}"));
    }
}

/// Starts the webhooks and the server. Also returns the webhooks' certificate authority and their Service.
async fn start(directory: &Path, env: &Env) -> (Admission, ApiServer, String, Value) {
    let authority = Authority::load_or_create(&directory.join("hooks"), env.wall()).unwrap();
    let (own, admin) = (env.clone(), Admin::default());
    let known = admin.clone();
    let hooks = tower::service_fn(move |request| answer(own.clone(), known.clone(), request));
    let address = serve(env, &authority, HttpService::new(hooks)).await;
    let server = ApiServer::start(program(), directory, Store::Embedded).await;
    let kubeconfig = server.data_dir.pki_of("admin").join("kubeconfig");
    let connection = kubeconfig::read(&kubeconfig).unwrap();
    assert!(admin.set(Client::connect(env, &connection, "hooks").unwrap()).is_ok());
    let admission = Admission { kubectl: Kubectl::new(&kubeconfig, directory), directory: directory.to_owned() };
    let bundle = BASE64.encode(&authority.cert_pem);
    (admission, server, bundle, service(address))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn webhooks_mutate_refuse_and_fail() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::system().child();
    let (admission, _server, bundle, service) = start(directory.path(), &env).await;
    let kubectl = &admission.kubectl;
    let address = service["metadata"]["annotations"].as_object().unwrap().values().next().unwrap().clone();
    let by_url =
        |path: &str| json!({"url": format!("https://{}/{path}", address.as_str().unwrap()), "caBundle": bundle});
    // A port that was free a moment ago has no listener.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let down = json!({"url": format!("https://{free}/down"), "caBundle": bundle});
    kubectl.ok(&format!("apply -f {}", admission.file("service.json", &service)));
    let by_service =
        json!({"service": {"namespace": "default", "name": "hooks", "path": "/service"}, "caBundle": bundle});
    let of_url = |name: &str| webhook(name, by_url(name), "Fail");
    admission.configure("Mutating", &[of_url("fill"), of_url("misfit")]);
    admission.configure(
        "Validating",
        &[
            of_url("deny"),
            of_url("hang"),
            of_url("uid"),
            of_url("garbage"),
            of_url("loop"),
            webhook("service", by_service, "Fail"),
            webhook("down", down.clone(), "Fail"),
            webhook("down-ignored", down, "Ignore"),
            webhook("hang-ignored", by_url("hang"), "Ignore"),
        ],
    );
    wait::until("the webhooks are called", || !admission.create("deny", "--dry-run=server").success);

    let data = |flags: &str| {
        let made = admission.create("fill", &format!("{flags} -o jsonpath={{.data}}"));
        assert!(made.success, "{}", made.stderr);
        made.stdout
    };
    assert_eq!(data("--dry-run=server"), r#"{"a":"1","dry":"true"}"#);
    assert!(kubectl.fails("get configmap map-fill").contains("NotFound"), "it was only tried");
    assert_eq!(data(""), r#"{"a":"1","dry":"false"}"#);

    let failed = |hook: &str| format!("failed calling webhook \"{hook}.hooks.test\": ");
    for (hook, why) in [
        ("deny", "admission webhook \"deny.hooks.test\" denied the request: /deny says no".to_owned()),
        ("service", "admission webhook \"service.hooks.test\" denied the request: /service says no".to_owned()),
        ("misfit", "Error from server (InternalError)".to_owned()),
        (
            "hang",
            format!(
                "{}failed to call webhook: Post \"https://{}/hang?timeout=1s\": context deadline exceeded",
                failed("hang"),
                address.as_str().unwrap()
            ),
        ),
        ("uid", format!("{}received invalid webhook response: expected response.uid=", failed("uid"))),
        (
            "garbage",
            format!(
                "{}failed to call webhook: couldn't get version/kind; json parse error: invalid character 'g'",
                failed("garbage")
            ),
        ),
        (
            "down",
            format!(
                "{}failed to call webhook: Post \"https://{free}/down?timeout=1s\": dial tcp {free}: connect: connection refused",
                failed("down")
            ),
        ),
        ("loop", "loop.hooks.test".to_owned()),
    ] {
        let refused = admission.create(hook, "");
        assert!(!refused.success && refused.stderr.contains(&why), "{hook}: {}\n{why}", refused.stderr);
    }
    assert!(admission.create("deny", "").stderr.contains("Warning: think again"));
    for hook in ["down-ignored", "hang-ignored"] {
        let made = admission.create(hook, "");
        assert!(made.success, "{hook}: {}", made.stderr);
    }
    let names = kubectl.ok(&format!("get configmaps -l {LABEL} -o jsonpath={{.items[*].metadata.name}}"));
    assert_eq!(names, "map-down-ignored map-fill map-hang-ignored", "what was refused is not there");
    // A user whose own webhook refuses everything can still delete it.
    kubectl.ok("delete validatingwebhookconfiguration hooks");
    wait::until("nobody refuses any more", || admission.create("deny", "").success);
    env.shutdown().cancel();
    env.drain().await;
}
