//! Tests the scheduler with a plugin that records its calls, over a small API server.

use super::*;
use crate::extenders::fixture::{Answer, Asked, serve};
use crate::operations::Inspection;
use async_trait::async_trait;
use client_testing::FakeServer;
use expect_test::expect;
use scheduler_plugins::fixture;
use scheduling_framework::cache::NodeInfo;
use scheduling_framework::configuration::profile::ProfileConfiguration;
use scheduling_framework::*;
use serde_json::{Value, json};
use std::time::Duration;

/// Records its calls, and fails or waits at one extension point.
#[derive(Clone)]
struct Recording {
    calls: Arc<Mutex<Vec<String>>>,
    fails_at: &'static str,
}

const NAME: &str = "Recording";

impl Recording {
    fn call(&self, point: &str, node: &str) -> Result<(), Rejection> {
        self.calls.lock().push(format!("{point} {node}").trim_end().to_owned());
        if self.fails_at == point { Err(Rejection::unschedulable(NAME, "no")) } else { Ok(()) }
    }

    fn points(self) -> Points {
        let p = &Arc::new(self);
        let points = Points::of(p).pre_enqueue(p).queue_sort(p).pre_filter(p).filter(p).post_filter(p).pre_score(p);
        points.score(p).reserve(p).permit(p).pre_bind(p).bind(p).post_bind(p)
    }
}

impl Plugin for Recording {
    fn name(&self) -> &'static str {
        NAME
    }

    fn may_become_schedulable(&self, _: &PodInfo, event: &ClusterEvent) -> bool {
        matches!(event, ClusterEvent::AssignedPodDeleted(_))
    }
}

impl PreEnqueue for Recording {
    fn pre_enqueue(&self, _: &PodInfo) -> Result<(), Rejection> {
        self.call("PreEnqueue", "")
    }
}

impl QueueSort for Recording {
    fn less(&self, _: &QueuedPodInfo, _: &QueuedPodInfo) -> Result<bool, String> {
        // A pod is compared again whenever it is updated.
        if self.calls.lock().last().is_none_or(|last| last != "QueueSort") {
            self.calls.lock().push("QueueSort".to_owned());
        }
        Ok(false)
    }
}

impl PreFilter for Recording {
    fn pre_filter(&self, _: &mut CycleState, _: &PodInfo, _: &Snapshot) -> Result<PreFilterResult, Rejection> {
        self.call("PreFilter", "").map(|()| PreFilterResult::AllNodes)
    }
}

impl Filter for Recording {
    fn filter(&self, _: &CycleState, _: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        self.call("Filter", node.name())
    }
}

impl PostFilter for Recording {
    fn post_filter(&self, _: &FailedCycle<'_>) -> Result<PostFilterResult, String> {
        self.call("PostFilter", "").map(|()| PostFilterResult::default()).map_err(|_| "no".to_owned())
    }
}

impl PreScore for Recording {
    fn pre_score(&self, _: &mut CycleState, _: &PodInfo, _: &Snapshot, _: &FeasibleNodes<'_>) -> PreScoreResult {
        if self.call("PreScore", "").is_ok() { PreScoreResult::Score } else { PreScoreResult::Skip }
    }
}

impl Score for Recording {
    /// Prefers `n2`. A failure is a score that is out of range.
    fn score(&self, _: &CycleState, _: &PodInfo, node: &NodeInfo, _: &Snapshot) -> i64 {
        match self.call("Score", node.name()) {
            Ok(()) => i64::from(node.name() == "n2"),
            Err(_) => MAX_NODE_SCORE + 1,
        }
    }
}

impl Reserve for Recording {
    fn reserve(&self, _: &mut CycleState, _: &PodInfo, node: &str) -> Result<(), Rejection> {
        self.call("Reserve", node)
    }

    fn unreserve(&self, _: &CycleState, _: &PodInfo, node: &str) {
        self.call("Unreserve", node).unwrap();
    }
}

impl Permit for Recording {
    fn permit(&self, _: &mut CycleState, _: &PodInfo, node: &str) -> Result<Permission, Rejection> {
        self.call("Permit", node)?;
        let waits = self.fails_at == "Wait";
        Ok(if waits { Permission::Wait(Duration::from_millis(100)) } else { Permission::Allow })
    }
}

#[async_trait]
impl PreBind for Recording {
    fn pre_bind_pre_flight(&self, _: &CycleState, _: &PodInfo, node: &str) -> PreBindPreFlight {
        if self.call("PreBindPreFlight", node).is_ok() { PreBindPreFlight::Run } else { PreBindPreFlight::Skip }
    }

    async fn pre_bind(&self, _: &CycleState, _: &PodInfo, node: &str) -> Result<(), String> {
        self.call("PreBind", node).map_err(|_| "no".to_owned())
    }
}

#[async_trait]
impl Bind for Recording {
    async fn bind(&self, _: &CycleState, _: &PodInfo, node: &str) -> Option<Result<(), String>> {
        Some(self.call("Bind", node).map_err(|_| "no".to_owned()))
    }
}

impl PostBind for Recording {
    fn post_bind(&self, _: &PodInfo, node: &str) {
        self.call("PostBind", node).unwrap();
    }
}

/// Returns a configuration whose only profile has this name, and the recording plugin alone.
fn configuration(scheduler_name: &str) -> Arc<Configuration> {
    let multi_point = json!({"disabled": [{"name": "*"}], "enabled": [{"name": NAME}]});
    let profile = json!({"schedulerName": scheduler_name, "plugins": {"multiPoint": multi_point}});
    let profile = ProfileConfiguration::read("profiles[0]", &profile, &mut Vec::new());
    Arc::new(Configuration { profiles: vec![profile], ..Configuration::default() })
}

struct Running {
    server: FakeServer,
    calls: Arc<Mutex<Vec<String>>>,
    configuration: watch::Sender<Arc<Configuration>>,
    waiting_pods: WaitingPods,
    env: Env,
    inspection: Arc<Inspection>,
}

impl Running {
    /// Starts a scheduler over two nodes and a pod.
    async fn start(fails_at: &'static str, pod: Value) -> Self {
        Self::start_with(Env::simulated(1), fails_at, pod, configuration("default-scheduler")).await
    }

    async fn start_with(env: Env, fails_at: &'static str, pod: Value, configuration: Arc<Configuration>) -> Self {
        let server = FakeServer::new(&env);
        for name in ["n1", "n2"] {
            let mut node = serde_json::to_value(&*fixture::node(name, "a", json!({}))).unwrap();
            node["apiVersion"] = json!("v1");
            node["kind"] = json!("Node");
            server.put("nodes", node);
        }
        server.put("pods", pod);
        let client = Client::from_service(&env, server.service(), "test");
        let informers = Informers::new(&client);
        let (calls, waiting_pods) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<WaitingPods>>::default());
        let (recorded, kept) = (calls.clone(), waiting_pods.clone());
        let register: Register = Arc::new(move |handle, registry| {
            *kept.lock() = handle.waiting_pods.clone();
            let plugin = Recording { calls: recorded.clone(), fails_at };
            registry.add(NAME, move |_| Ok(plugin.clone().points()));
        });
        let inspection = Inspection::new(10);
        let (sender, receiver) = watch::channel(configuration);
        let scheduler =
            Scheduler::new(&informers, &sender.borrow(), &register, inspection.attempts.clone(), None).unwrap();
        inspection.set(&scheduler);
        informers.start();
        assert!(informers.synced().await);
        env.spawn(scheduler.run(receiver));
        let waiting_pods = waiting_pods.lock().clone();
        let running = Self { server, calls, configuration: sender, waiting_pods, env, inspection };
        running.settle().await;
        running
    }

    /// Waits until everything is done but back-offs.
    async fn settle(&self) {
        self.env.sleep(Duration::from_millis(500)).await;
    }

    fn calls(&self) -> String {
        self.calls.lock().join(", ")
    }
}

fn pod(scheduler_name: &str) -> Value {
    let mut pod = fixture::pod("web", "1", json!({"schedulerName": scheduler_name}));
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod
}

#[tokio::test(start_paused = true)]
async fn extension_points_run_in_order() {
    let queued = "PreEnqueue, QueueSort";
    let filtered = format!("{queued}, PreFilter, Filter n1, Filter n2");
    let reserved = format!("{filtered}, PreScore, Score n1, Score n2, Reserve n2");
    let pre_bound = format!("{reserved}, Permit n2, PreBindPreFlight n2, PreBind n2");
    for (fails_at, expected) in [
        ("", format!("{pre_bound}, Bind n2, PostBind n2")),
        ("PreEnqueue", "PreEnqueue".to_owned()),
        ("PreFilter", format!("{queued}, PreFilter, PostFilter")),
        ("Filter", format!("{filtered}, PostFilter")),
        ("PreScore", format!("{filtered}, PreScore, Reserve n")),
        ("Score", format!("{filtered}, PreScore, Score n1, Score n2, {queued}")),
        ("Reserve", format!("{reserved}, Unreserve n2")),
        ("Permit", format!("{reserved}, Permit n2, Unreserve n2")),
        ("Wait", format!("{reserved}, Permit n2, PreBindPreFlight n2, Unreserve n2")),
        ("PreBindPreFlight", format!("{reserved}, Permit n2, PreBindPreFlight n2, Bind n2, PostBind n2")),
        // After an error the pod enters the back-off queue.
        ("PreBind", format!("{pre_bound}, Unreserve n2, {queued}")),
        ("Bind", format!("{pre_bound}, Bind n2, Unreserve n2, {queued}")),
    ] {
        let calls = Running::start(fails_at, pod("default-scheduler")).await.calls();
        match fails_at {
            "PreScore" => assert!(calls.starts_with(&expected), "{calls}"),
            _ => assert_eq!(calls, expected, "{fails_at}"),
        }
    }
}

/// What the one gives back does not help the other: both were tried without it.
#[tokio::test(start_paused = true)]
async fn pods_that_reserve_or_permit_rejects_do_not_wake_each_other() {
    for fails_at in ["Reserve", "Permit"] {
        let running = Running::start(fails_at, pod("default-scheduler")).await;
        let mut second = pod("default-scheduler");
        (second["metadata"]["name"], second["metadata"]["uid"]) = (json!("second"), json!("second"));
        running.server.put("pods", second);
        running.env.sleep(Duration::from_secs(60)).await;
        assert_eq!(running.calls().matches("PreFilter").count(), 2, "{fails_at}");
    }
}

/// A pod whose binding failed is tried again after its back-off, and another one at once that may use what it has given back.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_not_bound_wakes_others() {
    let running = Running::start("Wait", pod("default-scheduler")).await;
    running.env.sleep(Duration::from_secs(60)).await;
    assert_eq!(running.calls().matches("PreFilter").count(), 1, "its own end does not wake it");
    let mut second = pod("default-scheduler");
    (second["metadata"]["name"], second["metadata"]["uid"]) = (json!("second"), json!("second"));
    running.server.put("pods", second);
    running.env.sleep(Duration::from_secs(1)).await;
    assert!(running.calls().matches("PreFilter").count() > 2, "the end of the second wakes the first");
}

#[tokio::test(start_paused = true)]
async fn a_score_out_of_range_is_an_error() {
    let running = Running::start("Score", pod("default-scheduler")).await;
    let why = r#"applying score defaultWeights on Score plugins: plugin "Recording" returns an invalid score 101, it should in the range of [0, 100] after normalizing"#;
    assert_eq!(condition(&running), (json!("SchedulerError"), json!(why)));
    running.env.sleep(Duration::from_secs(12)).await;
    let tries = running.calls().matches("PreFilter").count();
    assert_eq!(tries, 4, "the back-off is 1 s, 2 s, 4 s, 8 s");
}

/// The node goes while the pod waits in Permit. The binding names it all the same, as in Kubernetes, and its pods are deleted by
/// the garbage collector of pods.
#[tokio::test(start_paused = true)]
async fn a_node_goes_between_reserve_and_bind() {
    let running = Running::start("Wait", pod("default-scheduler")).await;
    let mut second = pod("default-scheduler");
    (second["metadata"]["name"], second["metadata"]["uid"]) = (json!("second"), json!("second"));
    running.server.put("pods", second.clone());
    running.env.sleep(Duration::from_millis(50)).await;
    assert!(running.waiting_pods.contains("second"));
    running.server.remove("nodes", "n2");
    running.env.sleep(Duration::from_millis(10)).await;
    assert!(running.waiting_pods.allow("second", NAME));
    running.settle().await;
    assert!(running.calls().ends_with("PreBind n2, Bind n2, PostBind n2"), "{}", running.calls());
    // The recording plugin has bound nothing, so the API server does it.
    second["spec"]["nodeName"] = json!("n2");
    running.server.put("pods", second.clone());
    running.settle().await;
    let nodes = running.inspection.nodes().unwrap();
    let left: String = nodes.iter().map(ToString::to_string).collect();
    assert!(left.contains("Node name: n1") && !left.contains("Node name: n2\nDeleted: false"), "{left}");
    running.server.remove("pods", "shop/second");
    running.settle().await;
    assert_eq!(running.inspection.compare(), Some(Default::default()));
    let third = {
        second["spec"]["nodeName"] = json!("");
        (second["metadata"]["name"], second["metadata"]["uid"]) = (json!("third"), json!("third"));
        second
    };
    running.server.put("pods", third);
    running.env.sleep(Duration::from_millis(50)).await;
    assert!(running.calls().ends_with("Reserve n1, Permit n1, PreBindPreFlight n1"), "{}", running.calls());
}

#[tokio::test(start_paused = true)]
async fn the_reason_for_which_a_wait_ended_is_recorded() {
    let running = Running::start("Wait", pod("default-scheduler")).await;
    assert!(running.waiting_pods.list().is_empty());
    let pods = running.server.list("pods");
    let message = pods[0]["status"]["conditions"][0]["message"].clone();
    let why = "0/1 nodes are available: 1 rejected due to timeout after waiting 100ms at plugin Recording.";
    assert_eq!(message, why);
}

/// The node is named in the status before the binding, because a PreBind plugin or a wait may take long.
#[tokio::test(start_paused = true)]
async fn a_slow_binding_is_announced() {
    let is_nomination = |body: &[u8]| String::from_utf8_lossy(body).contains(r#""nominatedNodeName":"n2""#);
    for (fails_at, expected) in [("", 1), ("Wait", 1), ("PreBindPreFlight", 0), ("Filter", 0)] {
        let running = Running::start(fails_at, pod("default-scheduler")).await;
        let requests = running.server.requests();
        let announced = requests.iter().filter(|request| is_nomination(&request.body));
        assert_eq!(announced.count(), expected, "{fails_at}");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_wait_for_a_profile_with_their_scheduler_name() {
    let running = Running::start("", pod("other")).await;
    assert_eq!(running.calls(), "");
    running.configuration.send_replace(configuration("other"));
    running.settle().await;
    assert!(running.calls().ends_with("Bind n2, PostBind n2"), "{}", running.calls());
}

/// Returns the samples of the scheduler's metrics, without sums and buckets.
fn samples(running: &Running) -> String {
    let text = running.env.metrics().encode();
    let lines = text.lines().filter(|line| line.starts_with("scheduler_"));
    let mut lines: Vec<&str> = lines.filter(|line| !line.contains("_bucket{") && !line.contains("_sum")).collect();
    lines.sort_unstable();
    lines.join("\n") + "\n"
}

#[tokio::test(start_paused = true)]
async fn metrics_of_a_pod_that_is_bound() {
    let running = Running::start("", pod("default-scheduler")).await;
    expect![[r#"
        scheduler_batch_attempts_total{profile="default-scheduler",result="no_hint"} 1
        scheduler_batch_cache_flushed_total{profile="default-scheduler",reason="pod_not_batchable"} 1
        scheduler_cache_size{type="assumed_pods"} 1
        scheduler_cache_size{type="nodes"} 2
        scheduler_cache_size{type="pods"} 1
        scheduler_event_handling_duration_seconds_count{event="NodeAdd"} 2
        scheduler_framework_extension_point_duration_seconds_count{extension_point="Bind",profile="default-scheduler",status="Success"} 1
        scheduler_framework_extension_point_duration_seconds_count{extension_point="Filter",profile="default-scheduler",status="Success"} 1
        scheduler_framework_extension_point_duration_seconds_count{extension_point="Permit",profile="default-scheduler",status="Success"} 1
        scheduler_framework_extension_point_duration_seconds_count{extension_point="PostBind",profile="default-scheduler",status="Success"} 1
        scheduler_framework_extension_point_duration_seconds_count{extension_point="PreBind",profile="default-scheduler",status="Success"} 1
        scheduler_framework_extension_point_duration_seconds_count{extension_point="PreEnqueue",profile="default-scheduler",status="Success"} 1
        scheduler_framework_extension_point_duration_seconds_count{extension_point="PreFilter",profile="default-scheduler",status="Success"} 1
        scheduler_framework_extension_point_duration_seconds_count{extension_point="PreScore",profile="default-scheduler",status="Success"} 1
        scheduler_framework_extension_point_duration_seconds_count{extension_point="Reserve",profile="default-scheduler",status="Success"} 1
        scheduler_framework_extension_point_duration_seconds_count{extension_point="Score",profile="default-scheduler",status="Success"} 1
        scheduler_get_node_hint_duration_seconds_count{hinted="no_hint",profile="default-scheduler"} 1
        scheduler_goroutines{operation="binding"} 0
        scheduler_pending_pods{queue="active"} 0
        scheduler_pending_pods{queue="backoff"} 0
        scheduler_pending_pods{queue="gated"} 0
        scheduler_pending_pods{queue="unschedulable"} 0
        scheduler_plugin_evaluation_total{extension_point="Filter",plugin="Recording",profile="default-scheduler"} 2
        scheduler_plugin_evaluation_total{extension_point="PreFilter",plugin="Recording",profile="default-scheduler"} 1
        scheduler_plugin_evaluation_total{extension_point="PreScore",plugin="Recording",profile="default-scheduler"} 1
        scheduler_plugin_evaluation_total{extension_point="Score",plugin="Recording",profile="default-scheduler"} 2
        scheduler_plugin_execution_duration_seconds_count{extension_point="Filter",plugin="Recording",status="Success"} 2
        scheduler_plugin_execution_duration_seconds_count{extension_point="Score",plugin="Recording",status="Success"} 2
        scheduler_pod_scheduled_after_flush_total 0
        scheduler_pod_scheduling_attempts_count 1
        scheduler_pod_scheduling_sli_duration_seconds_count{attempts="1"} 1
        scheduler_preemption_attempts_total 0
        scheduler_preemption_victims_count 0
        scheduler_queue_incoming_pods_total{event="UnschedulablePodAdd",queue="active"} 1
        scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1
        scheduler_scheduling_algorithm_duration_seconds_count 1
        scheduler_scheduling_attempt_duration_seconds_count{profile="default-scheduler",result="scheduled"} 1
        scheduler_store_schedule_results_duration_seconds_count{profile="default-scheduler"} 1
    "#]].assert_eq(&samples(&running));
}

#[tokio::test(start_paused = true)]
async fn metrics_of_a_pod_that_fits_nowhere() {
    let running = Running::start("Filter", pod("default-scheduler")).await;
    expect![[r#"
        scheduler_batch_attempts_total{profile="default-scheduler",result="no_hint"} 1
        scheduler_cache_size{type="assumed_pods"} 0
        scheduler_cache_size{type="nodes"} 2
        scheduler_cache_size{type="pods"} 0
        scheduler_event_handling_duration_seconds_count{event="NodeAdd"} 2
        scheduler_framework_extension_point_duration_seconds_count{extension_point="Filter",profile="default-scheduler",status="Unschedulable"} 1
        scheduler_framework_extension_point_duration_seconds_count{extension_point="PostFilter",profile="default-scheduler",status="Unschedulable"} 1
        scheduler_framework_extension_point_duration_seconds_count{extension_point="PreEnqueue",profile="default-scheduler",status="Success"} 1
        scheduler_framework_extension_point_duration_seconds_count{extension_point="PreFilter",profile="default-scheduler",status="Success"} 1
        scheduler_get_node_hint_duration_seconds_count{hinted="no_hint",profile="default-scheduler"} 1
        scheduler_pending_pods{queue="active"} 0
        scheduler_pending_pods{queue="backoff"} 0
        scheduler_pending_pods{queue="gated"} 0
        scheduler_pending_pods{queue="unschedulable"} 1
        scheduler_plugin_evaluation_total{extension_point="Filter",plugin="Recording",profile="default-scheduler"} 2
        scheduler_plugin_evaluation_total{extension_point="PreFilter",plugin="Recording",profile="default-scheduler"} 1
        scheduler_plugin_execution_duration_seconds_count{extension_point="Filter",plugin="Recording",status="Unschedulable"} 2
        scheduler_pod_scheduled_after_flush_total 0
        scheduler_pod_scheduling_attempts_count 0
        scheduler_preemption_attempts_total 0
        scheduler_preemption_victims_count 0
        scheduler_queue_incoming_pods_total{event="ScheduleAttemptFailure",queue="unschedulable"} 1
        scheduler_queue_incoming_pods_total{event="UnschedulablePodAdd",queue="active"} 1
        scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"} 1
        scheduler_scheduling_algorithm_duration_seconds_count 0
        scheduler_scheduling_attempt_duration_seconds_count{profile="default-scheduler",result="unschedulable"} 1
        scheduler_unschedulable_pods{plugin="Recording",profile="default-scheduler"} 1
    "#]].assert_eq(&samples(&running));
}

#[tokio::test(start_paused = true)]
async fn attempts_are_kept_with_their_queue_history_and_their_end() {
    let running = Running::start("Bind", pod("default-scheduler")).await;
    running.env.sleep(Duration::from_secs(2)).await;
    let attempts = running.inspection.recorder.as_ref().unwrap().list();
    let line = |attempt: &Arc<scheduler_explanation::Attempt>| {
        let summary = attempt.summary();
        let moves = attempt.moves.iter().map(|one| format!("{} by {} {:?}", one.queue, one.event, one.before));
        let moves: Vec<String> = moves.collect();
        format!("{} {} {} {}: {}\n", summary.id, summary.attempt, summary.node, summary.end, moves.join(", "))
    };
    let text: String = attempts.iter().take(2).map(line).collect();
    expect![[r#"
        1 1 n2 running Bind plugin "Recording": no: active by UnschedulablePodAdd 0ns
        2 2 n2 running Bind plugin "Recording": no: backoff by ScheduleAttemptFailure 2s, active by BackoffComplete 0ns
    "#]]
    .assert_eq(&text);
}

#[tokio::test(start_paused = true)]
async fn a_dump_shows_nodes_and_queue_and_the_cache_equals_the_informers() {
    let running = Running::start("Filter", pod("default-scheduler")).await;
    let inspection = &running.inspection;
    assert_eq!(inspection.compare(), Some(Default::default()));
    let text: String = inspection.nodes().unwrap().iter().take(1).map(ToString::to_string).collect();
    expect![[r#"
        Node name: n1
        Deleted: false
        Requested Resources: {MilliCPU:0 Memory:0 EphemeralStorage:0 AllowedPodNumber:0 ScalarResources:map[]}
        Allocatable Resources: {MilliCPU:4000 Memory:8589934592 EphemeralStorage:0 AllowedPodNumber:110 ScalarResources:map[]}
        Scheduled Pods(number: 0):
    "#]].assert_eq(&text);
    let queue = serde_json::to_value(inspection.queue()).unwrap();
    expect![[r#"{"pods":[{"name":"web","namespace":"shop","phase":"","state":"unschedulable","uid":"web"}],"summary":"activeQ:0; backoffQ:0; unschedulablePods:1"}"#]].assert_eq(&queue.to_string());
}

#[tokio::test(start_paused = true)]
async fn pages_explain_attempts_or_say_why_not() {
    let running = Running::start("", pod("default-scheduler")).await;
    let ask = async |path: &str| {
        let router = crate::operations::pages::router(running.inspection.clone(), running.env.clone());
        let request = http::Request::get(path).body(axum::body::Body::empty()).unwrap();
        let answer = tower::ServiceExt::oneshot(router, request).await.unwrap();
        let code = answer.status().as_u16();
        let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        format!("{code} {}", String::from_utf8_lossy(&body))
    };
    for (path, expected) in [
        ("/explain", r#"200 {"items":[{"id":1,"#),
        ("/explain?pod=shop/web", r#"200 {"items":[{"id":1,"#),
        ("/explain?pod=shop/db", r#"200 {"items":[]}"#),
        ("/explain/1", r#"200 {"attempt":{"id":1,"#),
        ("/explain/1?what-if=node=n1", r#""nodeBefore":"n2""#),
        (
            "/explain/1?what-if=weight=X:1",
            "400 weight=X: the profile does not score with this plugin; it has Recording",
        ),
        ("/explain/1?verify=true", r#""verification":{"unknown":["the plugin Recording"]"#),
        ("/explain/2", "404 attempt 2 is not kept"),
        ("/explain/x", "400 "),
        ("/explain/1?wat=1", "400 "),
        ("/explain-rows?format=csv", ",n2,true,true,true,Score,Recording,,,1,1,1"),
        ("/explain-rows?format=jsonl&id=1", r#""point":"Filter","plugin":"Recording""#),
        ("/explain-rows?format=csv&id=2", "200 id,at,pod,"),
        ("/explain-held", r#"200 {"items":[]}"#),
        ("/explain-rows?format=xml", "400 format=xml: want csv, jsonl or parquet"),
        ("/debug/cache", r#"200 {"nodes":[{"name":"n1","deleted":false,"#),
        ("/debug/queue", r#"200 {"summary":"activeQ:0; backoffQ:0; unschedulablePods:0","pods":[]}"#),
        ("/debug/comparison", r#"200 {"missedNodes":[],"redundantNodes":[],"missedPods":[],"redundantPods":[]}"#),
        ("/metrics/resources", "kube_pod_resource_request{namespace=\"shop\""),
    ] {
        let answer = ask(path).await;
        assert!(answer.contains(expected), "{path}: {answer}");
    }
    let nothing = crate::operations::pages::router(Inspection::new(0), Env::simulated(1));
    let request = http::Request::get("/explain").body(axum::body::Body::empty()).unwrap();
    let answer = tower::ServiceExt::oneshot(nothing, request).await.unwrap();
    assert_eq!(answer.status(), 404);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_pre_enqueue_holds_is_explained_without_an_attempt() {
    let running = Running::start("PreEnqueue", pod("default-scheduler")).await;
    running.env.sleep(Duration::from_secs(60)).await;
    let held = running.inspection.held("shop/web").unwrap().items;
    let [held] = &held[..] else { panic!("one pod is held: {held:?}") };
    assert_eq!((held.plugin.as_str(), held.attempts), (NAME, 0));
    assert!(held.since.starts_with("2026-01-01T00:00:") && held.for_ms >= 60_000, "{held:?}");
    assert_eq!(running.inspection.held("shop/db").unwrap().items, []);
}

/// Starts a scheduler with an extender that has these verbs and answers.
async fn start_extended(verbs: Value, answers: &[(&str, Answer)]) -> (Running, Asked) {
    let env = Env::simulated(1);
    let asked = serve(&env, answers);
    let mut extender = json!({"urlPrefix": "http://a", "httpTimeout": "100ms"});
    fixture::merge(&mut extender, verbs);
    let extenders = vec![serde_json::from_value(extender).unwrap()];
    let configuration = Configuration { extenders, ..(*configuration("default-scheduler")).clone() };
    let running = Running::start_with(env, "", pod("default-scheduler"), Arc::new(configuration)).await;
    (running, asked)
}

/// Returns the reason and the message of the pod's condition.
fn condition(running: &Running) -> (Value, Value) {
    let condition = running.server.list("pods")[0]["status"]["conditions"][0].clone();
    (condition["reason"].clone(), condition["message"].clone())
}

#[tokio::test(start_paused = true)]
async fn any_event_lets_an_extender_that_rejected_a_pod_judge_it_again() {
    let answer = json!({"FailedNodes": {"n1": "too warm", "n2": "too warm"}});
    let (running, asked) = start_extended(json!({"filterVerb": "f"}), &[("http://a/f", Answer::Json(answer))]).await;
    assert_eq!(condition(&running), (json!("Unschedulable"), json!("0/2 nodes are available: 2 too warm.")));
    running.env.sleep(Duration::from_secs(30)).await;
    assert_eq!(asked.lock().len(), 1, "nothing has happened");
    let mut node = running.server.list("nodes")[0].clone();
    node["metadata"]["labels"]["cooled"] = json!("true");
    running.server.put("nodes", node);
    running.settle().await;
    assert_eq!(asked.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_pod_backs_off_while_its_extender_does_not_answer() {
    let (running, asked) = start_extended(json!({"filterVerb": "f"}), &[("http://a/f", Answer::Never)]).await;
    let why = r#"Post "http://a/f": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"#;
    assert_eq!(condition(&running), (json!("SchedulerError"), json!(why)));
    running.env.sleep(Duration::from_secs(12)).await;
    // The back-off is 1 s, 2 s, 4 s, 8 s.
    assert_eq!(asked.lock().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_extender_that_binds_replaces_the_bind_plugins() {
    let bind = |answer: Value| async move {
        start_extended(json!({"bindVerb": "bind"}), &[("http://a/bind", Answer::Json(answer))]).await
    };
    let (running, asked) = bind(json!({})).await;
    assert!(running.calls().ends_with("PreBind n2, PostBind n2"), "{}", running.calls());
    assert_eq!(asked.lock().len(), 1);
    let (running, _) = bind(json!({"Error": "taken"})).await;
    assert!(running.calls().contains("PreBind n2, Unreserve n2"), "{}", running.calls());
    assert_eq!(condition(&running), (json!("SchedulerError"), json!("taken")));
}
