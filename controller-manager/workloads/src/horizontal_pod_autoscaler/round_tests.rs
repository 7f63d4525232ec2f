//! Runs the whole controller in virtual time, against metrics APIs that answer as in the tables, and fail as in them.
//!
//! Corresponds to pkg/controller/podautoscaler/horizontal_test.go and metrics/client_test.go.

use super::controller;
use super::fixture::{autoscaler, requesting};
use bytes::Bytes;
use client::Client;
use client_testing::FakeServer;
use component_base::env::Env;
use component_base::http::{Body, HttpService, read_all};
use controller_base::context::Context;
use controller_base::descriptor::{ControllerDescriptor, reads, triggers};
use controller_base::options::Settings;
use http::{Method, Request, Response};
use parking_lot::Mutex;
use proto::kinds::api::autoscaling::v2::HorizontalPodAutoscaler;
use proto::kinds::api::core::v1::Pod;
use proto::{Kind, Status};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tower::ServiceExt;

const SCALE: &str = "/apis/apps/v1/namespaces/default/deployments/web/scale";
const METRICS: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods";
const CUSTOM: &str = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default";
const EXTERNAL: &str = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default";
const ROW: ControllerDescriptor = ControllerDescriptor {
    name: "autoscaler",
    aliases: &[],
    service_account: None,
    component: "horizontal-pod-autoscaler",
    queues: &["horizontalpodautoscaler"],
    informers: &[triggers::<HorizontalPodAutoscaler>(), reads::<Pod>()],
    on_by_default: true,
    start: controller::start,
};
/// Time in which an autoscaler has four rounds.
const MINUTE: Duration = Duration::from_secs(65);

/// An API server with one deployment, `web`, and with metrics.
#[derive(Clone)]
struct World {
    server: FakeServer,
    /// Answers to GET by path: code and body.
    answers: Arc<Mutex<BTreeMap<String, (u16, String)>>>,
    scale: Arc<Mutex<Value>>,
    /// Answers to the next changes of the size, in place of success.
    refusals: Arc<Mutex<Vec<Status>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn new(env: &Env, pods: usize) -> Self {
        let scale = json!({
            "metadata": {"name": "web", "namespace": "default", "resourceVersion": "7"},
            "spec": {"replicas": pods}, "status": {"replicas": pods, "selector": "app=web"},
        });
        let world = Self {
            server: FakeServer::new(env),
            answers: Arc::default(),
            scale: Arc::new(Mutex::new(scale)),
            refusals: Arc::default(),
            requests: Arc::default(),
        };
        let group = |group: &str, version: &str, resources: Value| json!({"metadata": {"name": group}, "versions": [{"version": version, "resources": resources}]});
        let deployments = json!([{"resource": "deployments", "scope": "Namespaced", "responseKind": {"group": "", "version": "", "kind": "Deployment"}}]);
        let groups = [
            group("apps", "v1", deployments),
            group("custom.metrics.k8s.io", "v1beta2", json!([])),
            group("external.metrics.k8s.io", "v1beta1", json!([])),
        ];
        world.answer("/api", &json!({"items": []}));
        world.answer("/apis", &json!({"items": groups}));
        for number in 0..pods {
            world
                .server
                .put("pods", requesting(&format!("web-{number}"), &[("web", "100m"), ("side", "100m")]).encode());
        }
        world
    }

    fn answer(&self, path: &str, body: &Value) {
        self.answers.lock().insert(path.to_owned(), (200, body.to_string()));
    }

    fn service(&self) -> HttpService {
        let world = self.clone();
        HttpService::new(tower::service_fn(move |request| {
            let world = world.clone();
            async move { Ok::<_, Infallible>(world.serve(request).await) }
        }))
    }

    async fn serve(&self, request: Request<Body>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        self.requests.lock().push(format!("{} {}", request.method(), request.uri()));
        if path == SCALE {
            return self.serve_scale(request).await;
        }
        if let Some((code, body)) = self.answers.lock().get(&path).cloned() {
            return answer(code, body);
        }
        if path.contains(".metrics.k8s.io") || path.contains("/metrics.k8s.io") || path.ends_with("/scale") {
            return answer(404, "404 page not found\n".to_owned());
        }
        self.server.service().oneshot(request).await.expect("the fake server answers")
    }

    async fn serve_scale(&self, request: Request<Body>) -> Response<Body> {
        if request.method() == Method::GET {
            return answer(200, self.scale.lock().to_string());
        }
        let body: Bytes = read_all(request.into_body(), 1 << 20).await.unwrap();
        let refusal = self.refusals.lock().pop();
        if let Some(status) = refusal {
            return answer(status.code, status.to_value().to_string());
        }
        *self.scale.lock() = serde_json::from_slice(&body).unwrap();
        answer(200, body_text(&body))
    }

    fn replicas(&self) -> i64 {
        self.scale.lock()["spec"]["replicas"].as_i64().unwrap()
    }

    fn count(&self, text: &str) -> usize {
        self.requests.lock().iter().filter(|line| line.contains(text)).count()
    }

    /// Returns the events as `reason: message`, each once.
    fn events(&self) -> Vec<String> {
        let text = |event: &Value, field: &str| event[field].as_str().unwrap().to_owned();
        let all = self.server.list("events");
        let mut events: Vec<String> =
            all.iter().map(|event| format!("{}: {}", text(event, "reason"), text(event, "message"))).collect();
        events.sort();
        events.dedup();
        events
    }

    /// Returns a condition as `status reason: message`.
    fn condition(&self, type_: &str) -> String {
        let autoscaler = self.server.get("horizontalpodautoscalers.autoscaling", "default/web").unwrap();
        let mut conditions = autoscaler["status"]["conditions"].as_array().into_iter().flatten();
        let condition = conditions.find(|condition| condition["type"] == type_);
        let field = |name: &str| condition.map_or("", |condition| condition[name].as_str().unwrap());
        format!("{} {}: {}", field("status"), field("reason"), field("message"))
    }

    /// Runs the controller for a minute.
    async fn run(&self, env: &Env, spec: Value) {
        self.server.put("horizontalpodautoscalers.autoscaling", autoscaler(spec).encode());
        let client = Client::from_service(env, self.service(), "test");
        let context = Context::new(&client, Settings { use_service_account_credentials: false, ..Settings::default() });
        let running = ROW.start(&context);
        context.informers.start();
        env.spawn(running);
        env.sleep(MINUTE).await;
        env.drain().await;
    }
}

fn body_text(body: &Bytes) -> String {
    String::from_utf8(body.to_vec()).unwrap()
}

fn answer(code: u16, body: String) -> Response<Body> {
    Response::builder().status(code).body(Body::from(body)).unwrap()
}

/// Returns a PodMetricsList in which both containers of each of these pods use that much.
fn pod_metrics(usages: &[&str], timestamp: &str) -> Value {
    let item = |(number, usage): (usize, &&str)| {
        let container = |name: &str| json!({"name": name, "usage": {"cpu": usage, "memory": "8Mi"}});
        json!({
            "metadata": {"name": format!("web-{number}")}, "timestamp": timestamp, "window": "15s",
            "containers": [container("web"), container("side")],
        })
    };
    json!({"items": usages.iter().enumerate().map(item).collect::<Value>()})
}

const NOW: &str = "2026-01-01T00:00:30Z";

fn cpu(target: Value) -> Value {
    json!({"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]})
}

fn utilization(percent: i32) -> Value {
    json!({"type": "Utilization", "averageUtilization": percent})
}

/// Returns the values of pods in custom.metrics.k8s.io, or of one object.
fn values(all: &[(&str, &str)]) -> Value {
    let item = |(name, value): &(&str, &str)| json!({"describedObject": {"name": name}, "metric": {"name": "m"}, "value": value, "timestamp": NOW});
    json!({"items": all.iter().map(item).collect::<Value>()})
}

#[tokio::test(start_paused = true)]
async fn every_source_is_asked_and_followed() {
    let metric = |name: &str| json!({"name": name, "selector": {"matchLabels": {"verb": "GET"}}});
    let average = |value: &str| json!({"type": "AverageValue", "averageValue": value});
    let value = |value: &str| json!({"type": "Value", "value": value});
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "name": "default"});
    let one = |source: Value| json!({"metrics": [source]});
    let by_get =
        "(&LabelSelector{MatchLabels:map[string]string{verb: GET,},MatchExpressions:[]LabelSelectorRequirement{},})";
    let cases = [
        // Each of 2 pods uses 2 × 90m of 200m: 90 / 60 = 1.5    2 × 1.5 = 3
        (
            cpu(utilization(60)),
            METRICS.to_owned(),
            pod_metrics(&["90m", "90m"], NOW),
            "labelSelector=app%3Dweb",
            3,
            "cpu resource utilization (percentage of request)".to_owned(),
            json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 90, "averageValue": "180m"}}}),
        ),
        // 180m / 45m = 4    2 × 4 = 8, and a size at most doubles, but to 4 at least: 4
        (
            cpu(average("45m")),
            METRICS.to_owned(),
            pod_metrics(&["90m", "90m"], NOW),
            "labelSelector=app%3Dweb",
            4,
            "cpu resource".to_owned(),
            json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": "180m"}}}),
        ),
        // One container uses 90m of 100m: 90 / 60 = 1.5
        (
            one(
                json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "side", "target": utilization(60)}}),
            ),
            METRICS.to_owned(),
            pod_metrics(&["90m", "90m"], NOW),
            "labelSelector=app%3Dweb",
            3,
            "cpu container resource utilization (percentage of request)".to_owned(),
            json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "side", "current": {"averageUtilization": 90, "averageValue": "90m"}}}),
        ),
        // 16Mi / 8Mi = 2    2 × 2 = 4
        (
            one(json!({"type": "Resource", "resource": {"name": "memory", "target": average("8Mi")}})),
            METRICS.to_owned(),
            pod_metrics(&["90m", "90m"], NOW),
            "labelSelector=app%3Dweb",
            4,
            "memory resource".to_owned(),
            json!({"type": "Resource", "resource": {"name": "memory", "current": {"averageValue": "16Mi"}}}),
        ),
        // (10 + 20) / 2 = 15    15 / 10 = 1.5    2 × 1.5 = 3
        (
            one(json!({"type": "Pods", "pods": {"metric": metric("hits"), "target": average("10")}})),
            format!("{CUSTOM}/pods/*/hits"),
            values(&[("web-0", "10"), ("web-1", "20")]),
            "labelSelector=app%3Dweb&metricLabelSelector=verb%3DGET",
            3,
            "pods metric hits".to_owned(),
            json!({"type": "Pods", "pods": {"metric": metric("hits"), "current": {"averageValue": "15"}}}),
        ),
        // 3k / 2k = 1.5    2 × 1.5 = 3
        (
            one(
                json!({"type": "Object", "object": {"metric": metric("hits"), "describedObject": web, "target": value("2k")}}),
            ),
            format!("{CUSTOM}/deployments.apps/web/hits"),
            values(&[("web", "3k")]),
            "metricLabelSelector=verb%3DGET",
            3,
            "Deployment metric hits".to_owned(),
            json!({"type": "Object", "object": {"metric": metric("hits"), "describedObject": web, "current": {"value": "3k"}}}),
        ),
        // 7 / 2 = 3.5 → 4; each of the 2 pods has 7 / 2 = 3.5
        (
            one(
                json!({"type": "Object", "object": {"metric": metric("hits"), "describedObject": space, "target": average("2")}}),
            ),
            format!("{CUSTOM}/metrics/hits"),
            values(&[("default", "7")]),
            "metricLabelSelector=verb%3DGET",
            4,
            format!("external metric hits{by_get}"),
            json!({"type": "Object", "object": {"metric": metric("hits"), "describedObject": space, "current": {"averageValue": "3500m"}}}),
        ),
        // 10 + 20 = 30    30 / 10 = 3 pods
        (
            one(json!({"type": "External", "external": {"metric": metric("queue"), "target": average("10")}})),
            format!("{EXTERNAL}/queue"),
            values(&[("a", "10"), ("b", "20")]),
            "labelSelector=verb%3DGET",
            3,
            format!("external metric queue{by_get}"),
            json!({"type": "External", "external": {"metric": metric("queue"), "current": {"averageValue": "15"}}}),
        ),
        // 30 / 20 = 1.5    2 × 1.5 = 3
        (
            one(json!({"type": "External", "external": {"metric": metric("queue"), "target": value("20")}})),
            format!("{EXTERNAL}/queue"),
            values(&[("a", "10"), ("b", "20")]),
            "labelSelector=verb%3DGET",
            3,
            format!("external metric queue{by_get}"),
            json!({"type": "External", "external": {"metric": metric("queue"), "current": {"value": "30"}}}),
        ),
    ];
    for (spec, path, body, query, replicas, name, status) in cases {
        let env = Env::simulated(1);
        let world = World::new(&env, 2);
        world.answer(&path, &body);
        // Nothing changes the metrics, so later rounds would go on: the bound ends that.
        let mut spec = spec;
        spec["maxReplicas"] = json!(replicas);
        world.run(&env, spec).await;
        assert_eq!(world.replicas(), replicas, "{path}: {:?}", world.events());
        assert_eq!(world.events()[0], format!("SuccessfulRescale: New size: {replicas}; reason: {name} above target"));
        let line = format!("GET {path}?{query}");
        assert_eq!(world.count(&line), 4, "{line}: {:?}", world.requests.lock());
        let autoscaler = world.server.get("horizontalpodautoscalers.autoscaling", "default/web").unwrap();
        assert_eq!(autoscaler["status"]["currentMetrics"], json!([status]), "{path}");
        assert_eq!(autoscaler["status"]["desiredReplicas"], replicas, "{path}");
    }
}

/// What is wrong, and what an autoscaler says about it.
struct Trouble {
    spec: Value,
    answer: Option<(&'static str, u16, String)>,
    /// The type of the condition, and its text.
    condition: (&'static str, String),
    /// Reasons of all events.
    events: &'static [&'static str],
    /// Requests for metrics in a minute.
    asked: usize,
}

fn failing(spec: Value, answer: Option<(&'static str, u16, String)>, reason: &str, message: &str) -> Trouble {
    let text = format!("False {reason}: the HPA was unable to compute the replica count: {message}");
    let events: &'static [&'static str] = match reason {
        "FailedGetResourceMetric" => &["FailedComputeMetricsReplicas", "FailedGetResourceMetric"],
        "FailedGetPodsMetric" => &["FailedComputeMetricsReplicas", "FailedGetPodsMetric"],
        "FailedGetExternalMetric" => &["FailedComputeMetricsReplicas", "FailedGetExternalMetric"],
        _ => &["FailedComputeMetricsReplicas", "FailedGetObjectMetric"],
    };
    let asked = if answer.is_some() { 4 } else { 0 };
    Trouble { spec, answer, condition: ("ScalingActive", text), events, asked }
}

fn troubles() -> Vec<Trouble> {
    let metrics = |body: Value| Some((METRICS, 200, body.to_string()));
    let get_resource =
        |message: &str| format!("failed to get cpu utilization: unable to get metrics for resource cpu: {message}");
    let in_api = |message: &str| get_resource(&format!("unable to fetch metrics from resource metrics API: {message}"));
    let resource = |answer, message: String| failing(cpu(utilization(50)), answer, "FailedGetResourceMetric", &message);
    let average = json!({"type": "AverageValue", "averageValue": "10"});
    let pods = json!({"metrics": [{"type": "Pods", "pods": {"metric": {"name": "hits"}, "target": average}}]});
    let external =
        json!({"metrics": [{"type": "External", "external": {"metric": {"name": "queue"}, "target": average}}]});
    let book = json!({"apiVersion": "example.com/v1", "kind": "Book", "name": "moby"});
    let object = json!({"metrics": [{"type": "Object", "object": {"metric": {"name": "hits"}, "describedObject": book, "target": average}}]});
    let scale = |target: Value, message: &str| Trouble {
        spec: json!({"scaleTargetRef": target}),
        answer: None,
        condition: (
            "AbleToScale",
            format!("False FailedGetScale: the HPA controller was unable to get the target's current scale: {message}"),
        ),
        events: &["FailedGetScale"],
        asked: 0,
    };
    let old = "2025-12-31T23:50:00Z";
    vec![
        resource(
            Some((METRICS, 404, "404 page not found\n".to_owned())),
            in_api("the server could not find the requested resource (get pods.metrics.k8s.io)"),
        ),
        resource(
            Some((METRICS, 503, "no backend".to_owned())),
            in_api("the server is currently unable to handle the request (get pods.metrics.k8s.io)"),
        ),
        resource(metrics(json!({"items": []})), get_resource("no metrics returned from resource metrics API")),
        resource(
            metrics(pod_metrics(&["NaN", "NaN"], NOW)),
            in_api("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ),
        resource(metrics(pod_metrics(&["100m", "-5m"], NOW)), get_resource("the value of pod web-1 is negative: -10m")),
        resource(
            metrics(pod_metrics(&["100m", "100m"], old)),
            get_resource("the value of pod web-0 is too old: it was measured at 2025-12-31T23:50:00Z"),
        ),
        failing(
            pods,
            Some((
                "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/*/hits",
                200,
                json!({"items": []}).to_string(),
            )),
            "FailedGetPodsMetric",
            "unable to get metric hits: no metrics returned from custom metrics API",
        ),
        failing(
            external,
            Some((
                "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue",
                200,
                values(&[("a", "-3")]).to_string(),
            )),
            "FailedGetExternalMetric",
            "unable to get external metric default/queue/nil: the value of the metric is negative: -3",
        ),
        failing(
            object,
            None,
            "FailedGetObjectMetric",
            "unable to get metric hits on Book default/moby: unable to fetch metrics from custom metrics API: unable to map kind Book.example.com to resource: no matches for kind \"Book\" in group \"example.com\"",
        ),
        scale(
            json!({"apiVersion": "example.com/v1", "kind": "Book", "name": "moby"}),
            "no matches for kind \"Book\" in group \"example.com\"",
        ),
        scale(json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}), "404 page not found"),
    ]
}

#[tokio::test(start_paused = true)]
async fn trouble_is_told_and_asked_again_once_a_period() {
    for Trouble { spec, answer, condition: (type_, text), events, asked } in troubles() {
        let env = Env::simulated(1);
        let world = World::new(&env, 2);
        if let Some((path, code, body)) = &answer {
            world.answers.lock().insert((*path).to_owned(), (*code, body.clone()));
        }
        world.run(&env, spec).await;
        assert_eq!(world.condition(type_), text);
        let all = world.events();
        let reasons: Vec<&str> = all.iter().filter_map(|event| event.split(':').next()).collect();
        assert_eq!(reasons, events, "{text}");
        assert_eq!(world.replicas(), 2, "{text}");
        assert_eq!(world.count("PUT /apis/apps"), 0, "{text}");
        assert_eq!(world.count("PUT /apis/autoscaling"), 1, "the status is written once: {text}");
        if let Some((path, ..)) = answer {
            assert_eq!(world.count(path), asked, "{text}");
        }
        // Discovery is asked each half minute; all else once a round, besides the informers and events.
        assert!(world.count("GET /apis ").max(world.count("GET /api ")) <= 3, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_selector_is_needed() {
    let env = Env::simulated(1);
    let world = World::new(&env, 2);
    world.scale.lock()["status"].as_object_mut().unwrap().remove("selector");
    world.run(&env, cpu(utilization(50))).await;
    assert_eq!(world.condition("ScalingActive"), "False InvalidSelector: the HPA target's scale is missing a selector");
    assert_eq!(
        world.events(),
        ["FailedComputeMetricsReplicas: selector is required", "SelectorRequired: selector is required"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_size_that_others_change_is_changed_on_their_version() {
    let env = Env::simulated(1);
    let world = World::new(&env, 2);
    world.answer(METRICS, &pod_metrics(&["90m", "90m"], NOW));
    let conflict = Status::modified("apps", "deployments", "web");
    world.refusals.lock().extend([conflict.clone(), conflict]);
    let mut spec = cpu(utilization(60));
    spec["maxReplicas"] = json!(3);
    world.run(&env, spec).await;
    assert_eq!(world.replicas(), 3);
    assert_eq!(world.count("PUT /apis/apps"), 3, "two conflicts, and then it works");
    let reason = "cpu resource utilization (percentage of request) above target";
    assert_eq!(world.events(), [format!("SuccessfulRescale: New size: 3; reason: {reason}")]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_size_is_told_and_tried_again_once_a_period() {
    let env = Env::simulated(1);
    let world = World::new(&env, 2);
    world.answer(METRICS, &pod_metrics(&["90m", "90m"], NOW));
    let refusal = Status::forbidden("apps", "deployments", "web", "the webhook says no");
    world.refusals.lock().extend(vec![refusal.clone(); 3]);
    let mut spec = cpu(utilization(60));
    spec["maxReplicas"] = json!(3);
    world.run(&env, spec).await;
    assert_eq!(world.count("PUT /apis/apps"), 4, "once a round");
    assert_eq!(world.replicas(), 3);
    let events = world.events();
    let failed = format!(
        "FailedRescale: New size: 3; reason: cpu resource utilization (percentage of request) above target; error: {}",
        refusal.message
    );
    assert_eq!(events[0], failed);
    assert!(events[1].starts_with("SuccessfulRescale"), "{events:?}");
}
