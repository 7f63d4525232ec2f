//! Admission webhooks as clients see them; the webhooks are services in this process.

mod denials;
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

type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// A server and webhooks beside it.
struct World {
    api: Api,
    network: Registry,
    /// By whom it was asked, and what.
    asked: Asked,
}

fn reviewed(review: &Value, mut response: Value) -> String {
    response["uid"] = review["request"]["uid"].clone();
    json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}).to_string()
}

fn allow(review: &Value) -> String {
    reviewed(review, json!({"allowed": true}))
}

fn deny(review: &Value) -> String {
    reviewed(review, json!({"allowed": false, "status": {"message": "not today"}}))
}

fn patch(review: &Value, operations: &Value) -> String {
    let patch = BASE64.encode(operations.to_string());
    reviewed(review, json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

fn put(review: &Value, path: &str, value: Value) -> String {
    patch(review, &json!([{"op": "add", "path": path, "value": value}]))
}

fn rule(resources: &[&str]) -> Value {
    json!({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources})
}

/// `short` is its host, too.
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

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": "1"}})
}

impl World {
    async fn start() -> Self {
        Self::of(Api::start().await)
    }

    fn of(api: Api) -> Self {
        let Network::InProcess(network) = api.server.server.env.network().clone() else { panic!("it is simulated") };
        Self { api, network, asked: Asked::default() }
    }

    /// A webhook that answers with this text, after so long.
    fn serve_after(&self, short: &str, delay: Duration, answer: impl Fn(&Value) -> String + Send + Sync + 'static) {
        let (asked, env, answer) = (self.asked.clone(), self.api.server.server.env.clone(), Arc::new(answer));
        let name = short.to_owned();
        let service = HttpService::new(tower::service_fn(move |request: Request<Body>| {
            let (asked, env, answer, name) = (asked.clone(), env.clone(), answer.clone(), name.clone());
            async move {
                let bytes = to_bytes(request.into_body(), 1 << 20).await.unwrap();
                let review: Value = serde_json::from_slice(&bytes).unwrap();
                let text = answer(&review);
                asked.lock().push((name, review["request"].clone()));
                env.sleep(delay).await;
                Ok::<_, Infallible>(Response::new(Body::from(text)))
            }
        }));
        self.network.register(&format!("{short}:443"), service);
    }

    fn serve(&self, short: &str, answer: impl Fn(&Value) -> String + Send + Sync + 'static) {
        self.serve_after(short, Duration::ZERO, answer);
    }

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

    /// Creates a map, whatever comes of it.
    async fn create(&self, name: &str) -> Answer {
        self.api.post(MAPS, map(name)).await
    }

    fn take_asked(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.asked.lock())
    }

    fn take_names(&self) -> Vec<String> {
        self.take_asked().into_iter().map(|(name, _)| name).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_is_asked_about_the_write_and_may_change_it() {
    let world = World::start().await;
    world.serve("label", |review| put(review, "/metadata/labels", json!({"by": "hook"})));
    world.mutating(&[webhook("label", &["configmaps"])]).await;
    let made = world.create("one").await;
    assert_eq!((made.code, &made.body["metadata"]["labels"]), (201, &json!({"by": "hook"})), "{}", made.text);
    assert_eq!(made.body["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"], json!(null), "nobody owns it");
    let (_, mut request) = world.take_asked().remove(0);
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
    let patched = world.api.ask(Method::PATCH, &path, json!({"data": {"a": "2"}}), &[MERGE]).await;
    assert_eq!(patched.code, 200);
    let (_, request) = world.take_asked().remove(0);
    assert_eq!((&request["operation"], &request["oldObject"]["data"]["a"]), (&json!("UPDATE"), &json!("1")));
    let options = json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"});
    assert_eq!(request["options"], options, "a patch is an update");
    world.serve("label", allow);
    assert_eq!(world.api.ask(Method::DELETE, &format!("{MAPS}/one"), "", &[]).await.code, 200);
    let (_, request) = world.take_asked().remove(0);
    assert_eq!((&request["operation"], &request["object"]), (&json!("DELETE"), &json!(null)));
    assert_eq!(
        (&request["oldObject"]["data"]["a"], &request["options"]["kind"]),
        (&json!("2"), &json!("DeleteOptions"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_denial_says_who_and_why() {
    let world = World::start().await;
    world.serve("no", deny);
    let message = "admission webhook \"no.hooks.test\" denied the request: not today";
    world.validating(&[webhook("no", &["configmaps"])]).await;
    let refused = world.create("one").await;
    assert_eq!((refused.code, refused.message(), &refused.body["reason"]), (400, message, &json!(null)));
    assert_eq!(world.api.get(&format!("{MAPS}/one")).await.code, 404, "nothing is stored");
    world.serve("no", |review| {
        let status = json!({"code": 403, "reason": "Forbidden", "message": "not you"});
        reviewed(review, json!({"allowed": false, "status": status, "warnings": ["careful", "careful"]}))
    });
    let refused = world.create("one").await;
    assert_eq!((refused.code, &refused.body["reason"]), (403, &json!("Forbidden")));
    assert_eq!(refused.warnings(), ["299 - \"careful\""]);
    let metrics = world.api.get("/metrics").await.text;
    for line in [
        "apiserver_admission_webhook_rejection_count{error_type=\"no_error\",name=\"no.hooks.test\",operation=\"CREATE\",rejection_code=\"403\",type=\"validating\"} 1",
        "apiserver_admission_webhook_request_total{code=\"400\",name=\"no.hooks.test\",operation=\"CREATE\",rejected=\"true\",type=\"validating\"} 1",
        "apiserver_admission_webhook_admission_duration_seconds_count{name=\"no.hooks.test\",operation=\"CREATE\",rejected=\"true\",type=\"validating\"} 2",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_hangs_or_is_down_is_given_up_as_its_policy_says() {
    let world = World::start().await;
    let env = &world.api.server.server.env;
    world.serve_after("slow", Duration::from_secs(3600), allow);
    let failed = "Internal error occurred: failed calling webhook";
    for kind in ["Mutating", "Validating"] {
        world.configure(kind, &[webhook("slow", &["configmaps"])]).await;
        let began = env.now();
        let refused = world.create("slow").await;
        let message = format!(
            "{failed} \"slow.hooks.test\": failed to call webhook: Post \"https://slow/ask?timeout=2s\": context deadline exceeded"
        );
        assert_eq!((refused.code, refused.message()), (500, message.as_str()));
        assert_eq!(began.elapsed(), Duration::from_secs(2));
        world.configure(kind, &[webhook("gone", &["configmaps"])]).await;
        let refused = world.create("gone").await;
        let message = format!(
            "{failed} \"gone.hooks.test\": failed to call webhook: Post \"https://gone/ask?timeout=2s\": dial tcp \
             gone:443: connect: connection refused"
        );
        assert_eq!((refused.code, refused.message()), (500, message.as_str()));
        let ignored = json!({"failurePolicy": "Ignore"});
        let webhooks = ["slow", "gone"].map(|short| with(webhook(short, &["configmaps"]), ignored.clone()));
        world.configure(kind, &webhooks).await;
        let made = world.create(&format!("made-{}", kind.to_lowercase())).await;
        assert_eq!(made.code, 201, "{}", made.text);
        world.configure(kind, &[]).await;
    }
    let metrics = world.api.get("/metrics").await.text;
    for kind in ["admit", "validating"] {
        let line = format!("apiserver_admission_webhook_fail_open_count{{name=\"gone.hooks.test\",type=\"{kind}\"}} 1");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_waits_no_longer_than_the_request() {
    let world = World::start().await;
    let env = &world.api.server.server.env;
    world.serve_after("slow", Duration::from_secs(3600), allow);
    let patient =
        |short| with(webhook(short, &["configmaps"]), json!({"timeoutSeconds": 30, "failurePolicy": "Ignore"}));
    world.mutating(&[patient("slow")]).await;
    let began = env.now();
    let refused = world.api.post(&format!("{MAPS}?timeout=1s"), map("one")).await;
    assert_eq!((refused.code, began.elapsed()), (504, Duration::from_secs(1)), "{}", refused.text);
    // Two of them are more than any write may take.
    world.mutating(&[patient("slow"), with(patient("slow"), json!({"name": "other.hooks.test"}))]).await;
    let began = env.now();
    let refused = world.create("one").await;
    assert_eq!((refused.code, began.elapsed()), (504, Duration::from_secs(34)), "{}", refused.text);
}

#[tokio::test(start_paused = true)]
async fn lies_are_told_by_what_is_wrong() {
    let world = World::start().await;
    type Lie = fn(&Value) -> String;
    let lies: [(&str, Lie, &str); 9] = [
        (
            "Mutating",
            |_| "gone fishing".to_owned(),
            "failed to call webhook: couldn't get version/kind; json parse error: invalid character 'g' looking for beginning of value",
        ),
        ("Validating", |_| "{}".to_owned(), "received invalid webhook response: webhook response was absent"),
        (
            "Validating",
            |review| {
                reviewed(
                    &json!({"apiVersion": review["apiVersion"], "request": {"uid": "x"}}),
                    json!({"allowed": true}),
                )
            },
            "received invalid webhook response: expected response.uid=\"",
        ),
        (
            "Validating",
            |review| put(review, "/a", json!(1)),
            "received invalid webhook response: validating webhook may not return response.patch",
        ),
        (
            "Mutating",
            |review| reviewed(review, json!({"allowed": true, "patch": BASE64.encode("[{}]")})),
            "received invalid webhook response: webhook returned response.patch but not response.patchType",
        ),
        (
            "Mutating",
            |review| reviewed(review, json!({"allowed": true, "patch": BASE64.encode("[{}]"), "patchType": "Odd"})),
            "unsupported patch type \"Odd\"",
        ),
        ("Mutating", |review| put(review, "/nowhere/x", json!(1)), ""),
        ("Mutating", |review| put(review, "/data", json!("text")), ""),
        ("Mutating", |review| put(review, "/kind", json!("Secret")), ""),
    ];
    for (kind, lie, why) in lies {
        world.serve("liar", lie);
        world.configure(kind, &[webhook("liar", &["configmaps"])]).await;
        let refused = world.create("one").await;
        let begins = match why {
            "" => "Internal error occurred: ".to_owned(),
            why => format!("Internal error occurred: failed calling webhook \"liar.hooks.test\": {why}"),
        };
        assert_eq!(refused.code, 500, "{}", refused.text);
        assert!(refused.message().starts_with(&begins), "{} {begins}", refused.message());
        world.configure(kind, &[]).await;
    }
    assert_eq!(world.api.get(&format!("{MAPS}/one")).await.code, 404);
    // What another namespace, or another name, would be stored as, is refused.
    for (path, value, code) in [("/metadata/namespace", "kube-system", 400), ("/metadata/name", "A b", 422)] {
        world.serve("liar", move |review| put(review, path, json!(value)));
        world.mutating(&[webhook("liar", &["configmaps"])]).await;
        let refused = world.create("one").await;
        assert_eq!(refused.code, code, "{}", refused.text);
    }
}

#[tokio::test(start_paused = true)]
async fn webhooks_are_asked_in_order_and_again_if_needed() {
    let world = World::start().await;
    world.serve("first", |review| put(review, "/data/first", json!("1")));
    world.serve("second", |review| put(review, "/data/second", json!("1")));
    world.serve("third", allow);
    let if_needed = json!({"reinvocationPolicy": "IfNeeded"});
    let hooks = ["first", "second", "third"].map(|short| webhook(short, &["configmaps"]));
    world.mutating(&hooks).await;
    assert_eq!(world.create("one").await.body["data"], json!({"a": "1", "first": "1", "second": "1"}));
    assert_eq!(world.take_names(), ["first", "second", "third"]);
    let [first, second, third] = hooks;
    world.mutating(&[with(first, if_needed.clone()), second, with(third, if_needed)]).await;
    assert_eq!(world.create("two").await.code, 201);
    assert_eq!(world.take_names(), ["first", "second", "third", "first"], "what came after the first has changed it");
}

#[tokio::test(start_paused = true)]
async fn whoever_validates_is_asked_together_with_all_others() {
    let world = World::start().await;
    let env = &world.api.server.server.env;
    world.serve_after("late", Duration::from_secs(1), deny);
    world.serve_after("later", Duration::from_millis(1500), deny);
    world.validating(&[webhook("later", &["configmaps"]), webhook("late", &["configmaps"])]).await;
    let began = env.now();
    let refused = world.create("one").await;
    assert_eq!(refused.message(), "admission webhook \"late.hooks.test\" denied the request: not today");
    assert_eq!(began.elapsed(), Duration::from_millis(1500), "nobody waits for another");
}

#[tokio::test(start_paused = true)]
async fn dry_runs_are_said_to_be_such() {
    let world = World::start().await;
    world.serve("hook", allow);
    world.validating(&[with(webhook("hook", &["configmaps"]), json!({"sideEffects": "NoneOnDryRun"}))]).await;
    let made = world.api.post(&format!("{MAPS}?dryRun=All"), map("one")).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let (_, request) = world.take_asked().remove(0);
    assert_eq!((&request["dryRun"], &request["options"]["dryRun"]), (&json!(true), &json!(["All"])));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_is_refused_where_a_webhook_has_side_effects() {
    let api = Api::with(Config::default()).await;
    let server = &api.server.server;
    let mut old = webhook("old", &["*"]);
    old["sideEffects"] = json!("Unknown");
    let callers = Arc::new(remote::callers::Callers::new(&server.env, Vec::new(), Default::default()));
    let for_plugins = Arc::new(crate::bootstrap::for_plugins::ForPlugins(Arc::downgrade(&server.registry)));
    let parts = admission::parts::PluginParts {
        env: &server.env,
        webhooks: ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
            .map(|resource| server.registry.row_of("admissionregistration.k8s.io", resource).unwrap().1.cacher.clone()),
        callers: &callers,
        authorization: &server.authorization,
        toleration_seconds: [300, 300],
        configurations: &Default::default(),
        namespaces: for_plugins.clone(),
        kinds: for_plugins,
    };
    let caller = admission::dynamic::webhooks::calling::Caller::new(
        &parts,
        "validatingwebhookconfigurations",
        "validating",
        false,
    );
    let hooks = admission::dynamic::webhooks::hook::read_all(&[Arc::new(json!({"webhooks": [old]}))]);
    let seen = Write::create("", "configmaps", map("one")).dry_run().see(async |attributes| {
        let seen = admission::dynamic::versioned_attributes::VersionedAttributes::of(
            attributes,
            attributes.versions.requested(),
        )
        .await?;
        let failure = caller.ask(&hooks[0], attributes, &seen).await.err();
        caller.judge(&hooks[0], attributes, caller.now(), None, failure).map(|_| ())
    });
    let refused = seen.await.error.unwrap();
    let message = "admission webhook \"old.hooks.test\" does not support dry run";
    assert_eq!((refused.code, refused.message.as_str()), (400, message));
}

#[tokio::test(start_paused = true)]
async fn selectors_and_conditions_choose() {
    let world = World::start().await;
    world.serve("hook", deny);
    let chosen = |name: &str| {
        json!({"matchConditions": [
        {"name": "named", "expression": format!("object.metadata.name == '{name}'")}]})
    };
    world.validating(&[with(webhook("hook", &["configmaps"]), chosen("bad"))]).await;
    assert_eq!((world.create("good").await.code, world.create("bad").await.code), (201, 400));
    let wrong = json!({"matchConditions": [{"name": "c", "expression": "object.nothing.here == 'x'"}]});
    world.validating(&[with(webhook("hook", &["configmaps"]), wrong.clone())]).await;
    assert_eq!(world.create("other").await.code, 403);
    let ignored = with(with(webhook("hook", &["configmaps"]), wrong), json!({"failurePolicy": "Ignore"}));
    world.validating(&[ignored]).await;
    assert_eq!(world.create("other").await.code, 201);
    let labelled = json!({"namespaceSelector": {"matchLabels": {"hooked": "yes"}}});
    world.validating(&[with(webhook("hook", &["configmaps", "namespaces"]), labelled)]).await;
    assert_eq!(world.create("third").await.code, 201);
    let namespace = json!({"metadata": {"name": "n", "labels": {"hooked": "yes"}}});
    assert_eq!(world.api.post("/api/v1/namespaces", namespace).await.code, 400, "a namespace by its own labels");
}

#[tokio::test(start_paused = true)]
async fn another_version_of_the_resource_is_converted_both_ways() {
    let world = World::start().await;
    world.serve("old", |review| put(review, "/spec/targetCPUUtilizationPercentage", json!(42)));
    let mut hook = webhook("old", &["horizontalpodautoscalers"]);
    hook["rules"][0]["apiVersions"] = json!(["v1"]);
    hook["rules"][0]["apiGroups"] = json!(["autoscaling"]);
    world.mutating(&[hook]).await;
    let scaler = json!({"metadata": {"name": "h"}, "spec": {
        "maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}});
    let made = world.api.create("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", scaler).await;
    assert_eq!(made["apiVersion"], "autoscaling/v2");
    assert_eq!(made["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 42, "{made}");
    let (_, request) = world.take_asked().remove(0);
    assert_eq!(request["object"]["apiVersion"], "autoscaling/v1");
    let versions = ["kind", "requestKind", "resource", "requestResource"].map(|key| request[key]["version"].clone());
    assert_eq!(versions, ["v1", "v2", "v1", "v2"]);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_generated_comes_between() {
    let world = World::start().await;
    world.serve("early", allow);
    world.serve("late", allow);
    world.mutating(&[webhook("early", &["configmaps"])]).await;
    world.validating(&[webhook("late", &["configmaps"])]).await;
    let made = world.api.create(MAPS, json!({"metadata": {"generateName": "m-"}})).await;
    let asked = world.take_asked();
    assert_eq!((&asked[0].1["name"], &asked[1].1["name"]), (&json!(null), &made["metadata"]["name"]));
    assert_eq!(asked[1].1["object"]["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(world.api.ask(Method::DELETE, MAPS, "", &[]).await.code, 200);
    let mut deletions = world.take_asked().into_iter().filter(|(name, _)| name == "late");
    let (_, last) = deletions.find(|(_, request)| request["oldObject"]["metadata"] == made["metadata"]).unwrap();
    assert_eq!((&last["operation"], &last["name"]), (&json!("DELETE"), &json!(null)), "the request names none");
}

#[tokio::test(start_paused = true)]
async fn actions_are_seen_once_as_what_they_are() {
    let world = World::start().await;
    world.serve("hook", allow);
    let pods = "/api/v1/namespaces/default/pods";
    world.api.until("/api/v1/namespaces/default/serviceaccounts", |_| true).await;
    let account = json!({"metadata": {"name": "default"}});
    world.api.post("/api/v1/namespaces/default/serviceaccounts", account).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    world.api.create(pods, pod).await;
    world.validating(&[webhook("hook", &["pods/*"])]).await;
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(world.api.post(&format!("{pods}/p/binding"), binding).await.code, 201);
    let shown = |world: &World| -> Vec<String> {
        let of = |(_, request): (String, Value)| {
            let text = |key: &str| request[key].as_str().unwrap_or_default().to_owned();
            let kind = request["kind"]["kind"].as_str().unwrap_or_default();
            format!("{} {} {kind} {}", text("operation"), text("subResource"), request["options"]["kind"])
        };
        world.take_asked().into_iter().map(of).collect()
    };
    assert_eq!(shown(&world), ["CREATE binding Binding \"CreateOptions\""]);
    world.api.get(&format!("{pods}/p/exec?command=sh&stdout=1")).await;
    assert_eq!(shown(&world), ["CONNECT exec PodExecOptions null"]);
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    assert_eq!(world.api.post(&format!("{pods}/p/eviction"), eviction).await.code, 201);
    assert_eq!(shown(&world), ["CREATE eviction Eviction \"CreateOptions\""]);
}

#[tokio::test(start_paused = true)]
async fn whoever_loses_against_another_writer_is_asked_again() {
    let world = World::start().await;
    world.create("one").await;
    let service = world.api.server.service.clone();
    let asked = Arc::new(Mutex::new(0));
    let times = asked.clone();
    let env = world.api.server.server.env.clone();
    world.serve("meddler", move |review| {
        *times.lock() += 1;
        if *times.lock() == 1 {
            // Another write, of which the webhook does not want to hear.
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
    world.api.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", role).await;
    let binding = json!({"metadata": {"name": "all"}, "subjects": [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "all"}});
    world.api.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await;
    world.api.server.server.env.sleep(Duration::from_secs(1)).await;
    let theirs = json!({"matchConditions": [{"name": "theirs", "expression": "request.userInfo.username != 'ann'"}]});
    // It answers a while later, when the other write has happened.
    world.serve_after("pause", Duration::from_secs(1), allow);
    let hooks = ["meddler", "pause"].map(|short| with(webhook(short, &["configmaps"]), theirs.clone()));
    world.mutating(&hooks).await;
    let patched = world.api.ask(Method::PATCH, &format!("{MAPS}/one"), json!({"data": {"c": "3"}}), &[MERGE]).await;
    assert_eq!(
        (patched.code, &patched.body["data"]),
        (200, &json!({"a": "1", "b": "2", "c": "3"})),
        "{}",
        patched.text
    );
    assert_eq!(*asked.lock(), 2);
}

#[tokio::test(start_paused = true)]
async fn configurations_that_are_wrong_can_be_taken_away() {
    let world = World::start().await;
    world.serve("no", deny);
    world.validating(&[webhook("no", &["*/*"])]).await;
    assert_eq!(world.create("one").await.code, 400);
    let path = format!("{CONFIGURATIONS}/validatingwebhookconfigurations/hooks");
    assert_eq!(world.api.ask(Method::DELETE, &path, "", &[]).await.code, 200);
    world.api.until(&format!("{path}?resourceVersion=0"), |answer| answer.code == 404).await;
    assert_eq!(world.create("one").await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn a_scale_is_a_scale_to_webhooks() {
    let world = World::start().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    world.api.create(deployments, json!({"metadata": {"name": "d"}, "spec": spec})).await;
    world.serve("scale", |review| put(review, "/spec/replicas", json!(7)));
    world.mutating(&[webhook("scale", &["deployments/scale"])]).await;
    let path = format!("{deployments}/d/scale");
    let scaled = world.api.ask(Method::PATCH, &path, json!({"spec": {"replicas": 2}}), &[MERGE]).await;
    assert_eq!((scaled.code, &scaled.body["spec"]), (200, &json!({"replicas": 7})), "{}", scaled.text);
    let (_, request) = world.take_asked().remove(0);
    let shown = ["object", "oldObject"].map(|key| (request[key]["kind"].clone(), request[key]["spec"].clone()));
    let scale = |replicas: i64| (json!("Scale"), json!({"replicas": replicas}));
    assert_eq!(shown, [scale(2), scale(1)]);
    assert_eq!(request["kind"], json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}));
    assert_eq!((&request["resource"]["resource"], &request["subResource"]), (&json!("deployments"), &json!("scale")));
}

#[tokio::test(start_paused = true)]
async fn webhooks_hear_who_asks() {
    let folder = tempfile::tempdir().unwrap();
    let users = "users: [{name: known, user: {token: secret}}, {name: '*.other', user: {token: wrong}}]";
    std::fs::write(folder.path().join("users"), users).unwrap();
    let configuration = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: \
        ValidatingAdmissionWebhook\n  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: \
        WebhookAdmissionConfiguration, kubeConfigFile: users}\n";
    let path = folder.path().join("admission.yaml");
    std::fs::write(&path, configuration).unwrap();
    let world = World::of(Api::with(Config { admission_control_config_file: Some(path), ..Config::default() }).await);

    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    for host in ["known", "unknown"] {
        let heard = heard.clone();
        let service = HttpService::new(tower::service_fn(move |request: Request<Body>| {
            let heard = heard.clone();
            async move {
                let said = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
                heard.lock().push(format!("{host}: {}", said.unwrap_or_default()));
                let bytes = to_bytes(request.into_body(), 1 << 20).await.unwrap();
                Ok::<_, Infallible>(Response::new(Body::from(allow(&serde_json::from_slice(&bytes).unwrap()))))
            }
        }));
        world.network.register(&format!("{host}:443"), service);
    }
    world.configure("Validating", &[webhook("known", &["configmaps"]), webhook("unknown", &["configmaps"])]).await;
    world.api.create(MAPS, map("a")).await;
    heard.lock().sort();
    assert_eq!(*heard.lock(), ["known: Bearer secret", "unknown: "]);
}
