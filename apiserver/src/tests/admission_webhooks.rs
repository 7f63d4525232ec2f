//! Admission webhooks, through the API. The webhooks are services in this process.

mod denials;
mod failures;
mod reviews;

use crate::config::Config;
use crate::testing::{Answer, Api};
use admission::testing::Write;
use axum::body::{Body, to_bytes};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use component_base::network::{HttpService, Network, Registry};
use http::{Method, Request, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");

/// Names of the webhooks that were called, and the requests of their reviews.
type Calls = Arc<Mutex<Vec<(String, Value)>>>;

/// A server, and webhooks beside it.
struct Setup {
    api: Api,
    network: Registry,
    calls: Calls,
}

fn review_answer(review: &Value, mut response: Value) -> String {
    response["uid"] = review["request"]["uid"].clone();
    json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}).to_string()
}

fn allow(review: &Value) -> String {
    review_answer(review, json!({"allowed": true}))
}

fn deny(review: &Value) -> String {
    review_answer(review, json!({"allowed": false, "status": {"message": "not today"}}))
}

fn patch(review: &Value, operations: &Value) -> String {
    let patch = BASE64.encode(operations.to_string());
    review_answer(review, json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

fn put(review: &Value, path: &str, value: Value) -> String {
    patch(review, &json!([{"op": "add", "path": path, "value": value}]))
}

fn rule(resources: &[&str]) -> Value {
    json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources})
}

/// Returns a webhook at the host `short`.
fn webhook(short: &str, resources: &[&str]) -> Value {
    json!({
        "name": format!("{short}.hooks.test"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "timeoutSeconds": 2, "clientConfig": {"url": format!("https://{short}/ask")}, "rules": [rule(resources)],
    })
}

fn with(mut webhook: Value, fields: Value) -> Value {
    for (key, value) in fields.as_object().unwrap() {
        webhook[key] = value.clone();
    }
    webhook
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": "1"}})
}

impl Setup {
    async fn start() -> Self {
        Self::of(Api::start().await)
    }

    fn of(api: Api) -> Self {
        let Network::InProcess(network) = api.server.server.env.network().clone() else { panic!("it is simulated") };
        Self { api, network, calls: Calls::default() }
    }

    /// Serves a webhook that answers with the text of `answer` after a delay.
    fn serve_after(&self, short: &str, delay: Duration, answer: impl Fn(&Value) -> String + Send + Sync + 'static) {
        let (calls, env, answer) = (self.calls.clone(), self.api.server.server.env.clone(), Arc::new(answer));
        let name = short.to_owned();
        let service = HttpService::new(tower::service_fn(move |request: Request<Body>| {
            let (calls, env, answer, name) = (calls.clone(), env.clone(), answer.clone(), name.clone());
            async move {
                let bytes = to_bytes(request.into_body(), 1 << 20).await.unwrap();
                let review: Value = serde_json::from_slice(&bytes).unwrap();
                let text = answer(&review);
                calls.lock().push((name, review["request"].clone()));
                env.sleep(delay).await;
                Ok::<_, Infallible>(Response::new(Body::from(text)))
            }
        }));
        self.network.register(&format!("{short}:443"), service);
    }

    fn serve(&self, short: &str, answer: impl Fn(&Value) -> String + Send + Sync + 'static) {
        self.serve_after(short, Duration::ZERO, answer);
    }

    /// Replaces the configuration `hooks` of a kind, and waits until the watch cache has it.
    async fn configure(&self, kind: &str, webhooks: &[Value]) {
        let name = format!("{}webhookconfigurations", kind.to_lowercase());
        let path = format!("{CONFIGURATIONS}/{name}");
        let body = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
            "metadata": {"name": "hooks"}, "webhooks": webhooks,
        });
        self.api.ask(Method::DELETE, &format!("{path}/hooks"), "", &[]).await;
        let made = self.api.create(&path, body).await;
        let known = |answer: &Answer| answer.body["metadata"]["uid"] == made["metadata"]["uid"];
        self.api.until(&format!("{path}/hooks?resourceVersion=0"), known).await;
    }

    async fn mutating(&self, webhooks: &[Value]) {
        self.configure("Mutating", webhooks).await;
    }

    async fn validating(&self, webhooks: &[Value]) {
        self.configure("Validating", webhooks).await;
    }

    /// Sends the creation of a ConfigMap, which may be refused.
    async fn create(&self, name: &str) -> Answer {
        self.api.post(MAPS, config_map(name)).await
    }

    fn take_calls(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.calls.lock())
    }

    fn take_names(&self) -> Vec<String> {
        self.take_calls().into_iter().map(|(name, _)| name).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_is_asked_about_the_write_and_may_change_it() {
    let setup = Setup::start().await;
    setup.serve("label", |review| put(review, "/metadata/labels", json!({"by": "hook"})));
    setup.mutating(&[webhook("label", &["configmaps"])]).await;
    let made = setup.create("one").await;
    assert_eq!((made.code, &made.body["metadata"]["labels"]), (201, &json!({"by": "hook"})), "{}", made.text);
    assert_eq!(made.body["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"], json!(null), "nobody owns it");
    let (_, mut request) = setup.take_calls().remove(0);
    assert!(request["uid"].as_str().is_some_and(|uid| uid.len() == 36));
    let object = request["object"].take();
    assert_eq!(
        (&object["kind"], &object["apiVersion"], &object["data"]),
        (&json!("ConfigMap"), &json!("v1"), &json!({"a": "1"}))
    );
    assert_eq!(object["metadata"]["uid"], json!(null), "it comes later");
    request["uid"] = json!("");
    let (kind, resource) = (
        json!({"group": "", "version": "v1", "kind": "ConfigMap"}),
        json!({"group": "", "version": "v1", "resource": "configmaps"}),
    );
    assert_eq!(
        request,
        json!({
            "uid": "", "kind": kind, "requestKind": kind, "resource": resource, "requestResource": resource,
            "name": "one", "namespace": "default", "operation": "CREATE", "object": null, "oldObject": null,
            "dryRun": false, "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
            "userInfo": {"username": "admin", "uid": "admin", "groups": ["system:masters", "system:authenticated"]},
        })
    );
    let path = format!("{MAPS}/one?fieldManager=me");
    let patched = setup.api.ask(Method::PATCH, &path, json!({"data": {"a": "2"}}), &[MERGE]).await;
    assert_eq!(patched.code, 200);
    let (_, request) = setup.take_calls().remove(0);
    assert_eq!((&request["operation"], &request["oldObject"]["data"]["a"]), (&json!("UPDATE"), &json!("1")));
    let options = json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"});
    assert_eq!(request["options"], options, "a patch is an update");
    setup.serve("label", allow);
    assert_eq!(setup.api.ask(Method::DELETE, &format!("{MAPS}/one"), "", &[]).await.code, 200);
    let (_, request) = setup.take_calls().remove(0);
    assert_eq!((&request["operation"], &request["object"]), (&json!("DELETE"), &json!(null)));
    assert_eq!(
        (&request["oldObject"]["data"]["a"], &request["options"]["kind"]),
        (&json!("2"), &json!("DeleteOptions"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_denial_says_who_and_why() {
    let setup = Setup::start().await;
    setup.serve("no", deny);
    let message = "admission webhook \"no.hooks.test\" denied the request: not today";
    setup.validating(&[webhook("no", &["configmaps"])]).await;
    let refused = setup.create("one").await;
    assert_eq!((refused.code, refused.message(), &refused.body["reason"]), (400, message, &json!(null)));
    assert_eq!(setup.api.get(&format!("{MAPS}/one")).await.code, 404, "nothing is stored");
    setup.serve("no", |review| {
        let status = json!({"code": 403, "reason": "Forbidden", "message": "not you"});
        review_answer(review, json!({"allowed": false, "status": status, "warnings": ["careful", "careful"]}))
    });
    let refused = setup.create("one").await;
    assert_eq!((refused.code, &refused.body["reason"]), (403, &json!("Forbidden")));
    assert_eq!(refused.warnings(), ["299 - \"careful\""]);
    let metrics = setup.api.get("/metrics").await.text;
    for line in [
        "apiserver_admission_webhook_rejection_count{error_type=\"no_error\",name=\"no.hooks.test\",operation=\"CREATE\",rejection_code=\"403\",type=\"validating\"} 1",
        "apiserver_admission_webhook_request_total{code=\"400\",name=\"no.hooks.test\",operation=\"CREATE\",rejected=\"true\",type=\"validating\"} 1",
        "apiserver_admission_webhook_admission_duration_seconds_count{name=\"no.hooks.test\",operation=\"CREATE\",rejected=\"true\",type=\"validating\"} 2",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn webhooks_are_asked_in_order_and_again_if_needed() {
    let setup = Setup::start().await;
    setup.serve("first", |review| put(review, "/data/first", json!("1")));
    setup.serve("second", |review| put(review, "/data/second", json!("1")));
    setup.serve("third", allow);
    let if_needed = json!({"reinvocationPolicy": "IfNeeded"});
    let hooks = ["first", "second", "third"].map(|short| webhook(short, &["configmaps"]));
    setup.mutating(&hooks).await;
    assert_eq!(setup.create("one").await.body["data"], json!({"a": "1", "first": "1", "second": "1"}));
    assert_eq!(setup.take_names(), ["first", "second", "third"]);
    let [first, second, third] = hooks;
    setup.mutating(&[with(first, if_needed.clone()), second, with(third, if_needed)]).await;
    assert_eq!(setup.create("two").await.code, 201);
    assert_eq!(setup.take_names(), ["first", "second", "third", "first"], "what came after the first has changed it");
}

#[tokio::test(start_paused = true)]
async fn validating_webhooks_are_called_in_parallel() {
    let setup = Setup::start().await;
    let env = &setup.api.server.server.env;
    setup.serve_after("late", Duration::from_secs(1), deny);
    setup.serve_after("later", Duration::from_millis(1500), deny);
    setup.validating(&[webhook("later", &["configmaps"]), webhook("late", &["configmaps"])]).await;
    let began = env.now();
    let refused = setup.create("one").await;
    assert_eq!(refused.message(), "admission webhook \"late.hooks.test\" denied the request: not today");
    assert_eq!(began.elapsed(), Duration::from_millis(1500), "no webhook waits for another");
}

#[tokio::test(start_paused = true)]
async fn a_review_says_that_the_request_is_a_dry_run() {
    let setup = Setup::start().await;
    setup.serve("hook", allow);
    setup.validating(&[with(webhook("hook", &["configmaps"]), json!({"sideEffects": "NoneOnDryRun"}))]).await;
    let made = setup.api.post(&format!("{MAPS}?dryRun=All"), config_map("one")).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let (_, request) = setup.take_calls().remove(0);
    assert_eq!((&request["dryRun"], &request["options"]["dryRun"]), (&json!(true), &json!(["All"])));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_is_refused_where_a_webhook_has_side_effects() {
    let api = Api::with(Config::default()).await;
    let server = &api.server.server;
    let mut old = webhook("old", &["*"]);
    old["sideEffects"] = json!("Unknown");
    let clients = Arc::new(remote::clients::Clients::new(&server.env, Vec::new(), Default::default()));
    let plugin_registry = Arc::new(crate::bootstrap::plugin_registry::PluginRegistry(Arc::downgrade(&server.registry)));
    let parts = admission::parts::PluginParts {
        env: &server.env,
        webhooks: ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
            .map(|resource| server.registry.row_of("admissionregistration.k8s.io", resource).unwrap().1.cacher.clone()),
        clients: &clients,
        authorization: &server.access.authorization,
        toleration_seconds: [300, 300],
        configurations: &Default::default(),
        namespaces: plugin_registry.clone(),
        kinds: plugin_registry,
        nodes_declare_features: true,
        pod_groups_have_priorities: false,
    };
    let caller = admission::dynamic::webhooks::calling::Caller::new(
        &parts,
        "validatingwebhookconfigurations",
        "validating",
        false,
    );
    let hooks = admission::dynamic::webhooks::hook::read_all(&[Arc::new(json!({"webhooks": [old]}))]);
    let seen = Write::create("", "configmaps", config_map("one")).dry_run().see(async |attributes| {
        let seen = admission::dynamic::versioned_attributes::VersionedAttributes::of(
            attributes,
            attributes.versions.requested(),
        )
        .await?;
        let failure = caller.call(&hooks[0], attributes, &seen).await.err();
        caller.judge(&hooks[0], attributes, caller.now(), None, failure).map(|_| ())
    });
    let refused = seen.await.error.unwrap();
    let message = "admission webhook \"old.hooks.test\" does not support dry run";
    assert_eq!((refused.code, refused.message.as_str()), (400, message));
}

#[tokio::test(start_paused = true)]
async fn selectors_and_conditions_choose() {
    let setup = Setup::start().await;
    setup.serve("hook", deny);
    let chosen = |name: &str| {
        json!({"matchConditions": [
        {"name": "named", "expression": format!("object.metadata.name == '{name}'")}]})
    };
    setup.validating(&[with(webhook("hook", &["configmaps"]), chosen("bad"))]).await;
    assert_eq!((setup.create("good").await.code, setup.create("bad").await.code), (201, 400));
    let wrong = json!({"matchConditions": [{"name": "c", "expression": "object.nothing.here == 'x'"}]});
    setup.validating(&[with(webhook("hook", &["configmaps"]), wrong.clone())]).await;
    assert_eq!(setup.create("other").await.code, 403);
    let ignored = with(with(webhook("hook", &["configmaps"]), wrong), json!({"failurePolicy": "Ignore"}));
    setup.validating(&[ignored]).await;
    assert_eq!(setup.create("other").await.code, 201);
    let labelled = json!({"namespaceSelector": {"matchLabels": {"hooked": "yes"}}});
    setup.validating(&[with(webhook("hook", &["configmaps", "namespaces"]), labelled)]).await;
    assert_eq!(setup.create("third").await.code, 201);
    let namespace = json!({"metadata": {"name": "n", "labels": {"hooked": "yes"}}});
    assert_eq!(setup.api.post("/api/v1/namespaces", namespace).await.code, 400, "a namespace by its own labels");
}

#[tokio::test(start_paused = true)]
async fn another_version_of_the_resource_is_converted_both_ways() {
    let setup = Setup::start().await;
    setup.serve("old", |review| put(review, "/spec/targetCPUUtilizationPercentage", json!(42)));
    let mut hook = webhook("old", &["horizontalpodautoscalers"]);
    hook["rules"][0]["apiVersions"] = json!(["v1"]);
    hook["rules"][0]["apiGroups"] = json!(["autoscaling"]);
    setup.mutating(&[hook]).await;
    let scaler = json!({"metadata": {"name": "h"}, "spec": {
        "maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}});
    let made = setup.api.create("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", scaler).await;
    assert_eq!(made["apiVersion"], "autoscaling/v2");
    assert_eq!(made["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 42, "{made}");
    let (_, request) = setup.take_calls().remove(0);
    assert_eq!(request["object"]["apiVersion"], "autoscaling/v1");
    let versions = ["kind", "requestKind", "resource", "requestResource"].map(|key| request[key]["version"].clone());
    assert_eq!(versions, ["v1", "v2", "v1", "v2"]);
}

#[tokio::test(start_paused = true)]
async fn a_name_is_generated_between_mutating_and_validating_webhooks() {
    let setup = Setup::start().await;
    setup.serve("early", allow);
    setup.serve("late", allow);
    setup.mutating(&[webhook("early", &["configmaps"])]).await;
    setup.validating(&[webhook("late", &["configmaps"])]).await;
    let made = setup.api.create(MAPS, json!({"metadata": {"generateName": "m-"}})).await;
    let asked = setup.take_calls();
    assert_eq!((&asked[0].1["name"], &asked[1].1["name"]), (&json!(null), &made["metadata"]["name"]));
    assert_eq!(asked[1].1["object"]["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(setup.api.ask(Method::DELETE, MAPS, "", &[]).await.code, 200);
    let mut deletions = setup.take_calls().into_iter().filter(|(name, _)| name == "late");
    let (_, last) = deletions.find(|(_, request)| request["oldObject"]["metadata"] == made["metadata"]).unwrap();
    assert_eq!((&last["operation"], &last["name"]), (&json!("DELETE"), &json!(null)), "the request names none");
}

#[tokio::test(start_paused = true)]
async fn a_webhook_sees_each_action_once_under_its_own_kind() {
    let setup = Setup::start().await;
    setup.serve("hook", allow);
    let pods = "/api/v1/namespaces/default/pods";
    setup.api.until("/api/v1/namespaces/default/serviceaccounts", |_| true).await;
    let account = json!({"metadata": {"name": "default"}});
    setup.api.post("/api/v1/namespaces/default/serviceaccounts", account).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    setup.api.create(pods, pod).await;
    setup.validating(&[webhook("hook", &["pods/*"])]).await;
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(setup.api.post(&format!("{pods}/p/binding"), binding).await.code, 201);
    let shown = |setup: &Setup| -> Vec<String> {
        let of = |(_, request): (String, Value)| {
            let text = |key: &str| request[key].as_str().unwrap_or_default().to_owned();
            let kind = request["kind"]["kind"].as_str().unwrap_or_default();
            format!("{} {} {kind} {}", text("operation"), text("subResource"), request["options"]["kind"])
        };
        setup.take_calls().into_iter().map(of).collect()
    };
    assert_eq!(shown(&setup), ["CREATE binding Binding \"CreateOptions\""]);
    setup.api.get(&format!("{pods}/p/exec?command=sh&stdout=1")).await;
    assert_eq!(shown(&setup), ["CONNECT exec PodExecOptions null"]);
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    assert_eq!(setup.api.post(&format!("{pods}/p/eviction"), eviction).await.code, 201);
    assert_eq!(shown(&setup), ["CREATE eviction Eviction \"CreateOptions\""]);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_loses_a_conflict_calls_its_webhooks_again() {
    let setup = Setup::start().await;
    setup.create("one").await;
    let service = setup.api.server.service.clone();
    let calls = Arc::new(Mutex::new(0));
    let count = calls.clone();
    let env = setup.api.server.server.env.clone();
    setup.serve("meddler", move |review| {
        *count.lock() += 1;
        if *count.lock() == 1 {
            // Another write, which the condition of the webhook excludes.
            let request = Request::builder().method(Method::PATCH).uri(format!("{MAPS}/one"));
            let request = request.header("authorization", "Bearer ann-token").header("content-type", MERGE.1);
            let request = request.body(Body::from(json!({"data": {"b": "2"}}).to_string())).unwrap();
            let mut service = service.clone();
            env.spawn(async move { drop(tower::Service::call(&mut service, request).await) });
        }
        allow(review)
    });
    let role =
        json!({"metadata": {"name": "all"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    setup.api.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", role).await;
    let binding = json!({"metadata": {"name": "all"}, "subjects": [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "all"}});
    setup.api.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await;
    setup.api.server.server.env.sleep(Duration::from_secs(1)).await;
    let theirs = json!({"matchConditions": [{"name": "theirs", "expression": "request.userInfo.username != 'ann'"}]});
    // This webhook answers later, when the other write is stored.
    setup.serve_after("pause", Duration::from_secs(1), allow);
    let hooks = ["meddler", "pause"].map(|short| with(webhook(short, &["configmaps"]), theirs.clone()));
    setup.mutating(&hooks).await;
    let patched = setup.api.ask(Method::PATCH, &format!("{MAPS}/one"), json!({"data": {"c": "3"}}), &[MERGE]).await;
    assert_eq!(
        (patched.code, &patched.body["data"]),
        (200, &json!({"a": "1", "b": "2", "c": "3"})),
        "{}",
        patched.text
    );
    assert_eq!(*calls.lock(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_refuses_everything_can_be_deleted() {
    let setup = Setup::start().await;
    setup.serve("no", deny);
    setup.validating(&[webhook("no", &["*/*"])]).await;
    assert_eq!(setup.create("one").await.code, 400);
    let path = format!("{CONFIGURATIONS}/validatingwebhookconfigurations/hooks");
    assert_eq!(setup.api.ask(Method::DELETE, &path, "", &[]).await.code, 200);
    setup.api.until(&format!("{path}?resourceVersion=0"), |answer| answer.code == 404).await;
    assert_eq!(setup.create("one").await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_for_the_scale_subresource_gets_scale_objects() {
    let setup = Setup::start().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    setup.api.create(deployments, json!({"metadata": {"name": "d"}, "spec": spec})).await;
    setup.serve("scale", |review| put(review, "/spec/replicas", json!(7)));
    setup.mutating(&[webhook("scale", &["deployments/scale"])]).await;
    let path = format!("{deployments}/d/scale");
    let scaled = setup.api.ask(Method::PATCH, &path, json!({"spec": {"replicas": 2}}), &[MERGE]).await;
    assert_eq!((scaled.code, &scaled.body["spec"]), (200, &json!({"replicas": 7})), "{}", scaled.text);
    let (_, request) = setup.take_calls().remove(0);
    let shown = ["object", "oldObject"].map(|key| (request[key]["kind"].clone(), request[key]["spec"].clone()));
    let scale = |replicas: i64| (json!("Scale"), json!({"replicas": replicas}));
    assert_eq!(shown, [scale(2), scale(1)]);
    assert_eq!(request["kind"], json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}));
    assert_eq!((&request["resource"]["resource"], &request["subResource"]), (&json!("deployments"), &json!("scale")));
}

#[tokio::test(start_paused = true)]
async fn webhooks_get_the_credentials_of_the_kubeconfig() {
    let folder = tempfile::tempdir().unwrap();
    let users = "users: [{name: known, user: {token: secret}}, {name: '*.other', user: {token: wrong}}]";
    std::fs::write(folder.path().join("users"), users).unwrap();
    let configuration = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: \
        ValidatingAdmissionWebhook\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: \
        WebhookAdmissionConfiguration, kubeConfigFile: users}\n";
    let path = folder.path().join("admission.yaml");
    std::fs::write(&path, configuration).unwrap();
    let setup = Setup::of(Api::with(Config { admission_control_config_file: Some(path), ..Config::default() }).await);

    let received: Arc<Mutex<Vec<String>>> = Arc::default();
    for host in ["known", "unknown"] {
        let received = received.clone();
        let service = HttpService::new(tower::service_fn(move |request: Request<Body>| {
            let received = received.clone();
            async move {
                let credentials =
                    request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
                received.lock().push(format!("{host}: {}", credentials.unwrap_or_default()));
                let bytes = to_bytes(request.into_body(), 1 << 20).await.unwrap();
                Ok::<_, Infallible>(Response::new(Body::from(allow(&serde_json::from_slice(&bytes).unwrap()))))
            }
        }));
        setup.network.register(&format!("{host}:443"), service);
    }
    setup.configure("Validating", &[webhook("known", &["configmaps"]), webhook("unknown", &["configmaps"])]).await;
    setup.api.create(MAPS, config_map("a")).await;
    received.lock().sort();
    assert_eq!(*received.lock(), ["known: Bearer secret", "unknown: "]);
}
