//! Whole cycles in virtual time: pods that wait, wake each other and preempt, and what a group tells of itself.

use super::pod_group_tests::{Cluster, Permits, Setup, TWO_NODES};
use super::*;
use crate::extenders::fixture::{Answer, serve};
use client_testing::Fault;
use proto::meta::status::Status;
use scheduler_plugins::fixture::{gang, merge};
use serde_json::{Value, json};
use std::time::Duration;

const GANGS: &[&str] = &["GenericWorkload", "GangScheduling"];
const ONE_NODE: &[(&str, &str)] = &[("n1", "a")];

impl Cluster {
    /// Adds a pod without a group.
    fn single(&self, name: &str, cpu: &str, extra: Value) {
        let mut pod = scheduler_plugins::fixture::pod(name, cpu, json!({"schedulerName": "default-scheduler"}));
        merge(&mut pod, json!({"apiVersion": "v1", "kind": "Pod"}));
        merge(&mut pod, extra);
        self.server.put("pods", pod);
    }

    /// Returns the names of the bound pods in the order in which they were bound.
    fn order(&self) -> String {
        self.bound.lock().join(" ")
    }

    /// Returns the numbers of active, backed-off, unschedulable and gated pods.
    fn lengths(&self) -> [usize; 4] {
        self.scheduler.queue.with(|queue, _| queue.lengths())
    }

    /// Returns the lines of metrics that begin like this.
    fn metrics(&self, start: &str) -> String {
        let text = self.env.metrics().encode();
        let mut lines: Vec<&str> = text.lines().filter(|line| line.starts_with(start)).collect();
        lines.sort_unstable();
        lines.join("\n")
    }
}

fn extender() -> Vec<scheduling_framework::configuration::extender::Extender> {
    let extender = json!({"urlPrefix": "http://a", "filterVerb": "f", "httpTimeout": "1s", "nodeCacheCapable": true});
    vec![serde_json::from_value(extender).unwrap()]
}

#[tokio::test(start_paused = true)]
async fn extenders_filter_for_each_pod_of_a_group() {
    let env = Env::simulated(1);
    let asked = serve(&env, &[("http://a/f", Answer::Json(json!({"NodeNames": ["n2"]})))]);
    let setup = Setup { extenders: extender(), ..Setup::default() };
    let cluster = Cluster::start_with(env, TWO_NODES, GANGS, setup).await;
    cluster.group(&gang("g", 3));
    cluster.pods("g", 3, &json!({}));
    cluster.wait(5).await;
    assert_eq!(cluster.nodes_of("g"), ["n2", "n2", "n2"]);
    assert_eq!(asked.lock().len(), 3);
    // Node n2 has room for one pod, and the gang needs two.
    cluster.group(&gang("h", 2));
    cluster.pods("h", 2, &json!({}));
    cluster.wait(5).await;
    assert_eq!(cluster.nodes_of("h").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_group_fails_with_its_extender() {
    let env = Env::simulated(1);
    serve(&env, &[("http://a/f", Answer::Json(json!({"Error": "at lunch"})))]);
    let setup = Setup { extenders: extender(), ..Setup::default() };
    let cluster = Cluster::start_with(env, TWO_NODES, GANGS, setup).await;
    cluster.group(&gang("g", 2));
    cluster.pods("g", 2, &json!({}));
    cluster.wait(1).await;
    let why = "failed to schedule other pod from a pod group: at lunch";
    assert_eq!(cluster.condition("g"), format!("False SchedulerError {why}"));
    assert_eq!((cluster.why("g-0").as_str(), cluster.why("g-1").as_str()), ("at lunch", why));
    let attempts = cluster.metrics("scheduler_podgroup_schedule_attempts_total");
    assert!(attempts.contains(r#"{profile="default-scheduler",result="error"}"#), "{attempts}");
}

#[tokio::test(start_paused = true)]
async fn each_pod_of_a_group_is_explained_with_those_before_it() {
    let cluster = Cluster::start_with(Env::simulated(1), ONE_NODE, GANGS, Setup::default()).await;
    cluster.group(&gang("g", 4));
    cluster.pods("g", 5, &json!({}));
    cluster.wait(5).await;
    assert_eq!(cluster.nodes_of("g").len(), 4);
    let recorder = cluster.inspection.recorder.clone().unwrap();
    let mut lines = Vec::new();
    for attempt in recorder.list().iter().take(5) {
        let (attempt, snapshot) = recorder.get(attempt.id).unwrap();
        let (pods, summary) = (snapshot.nodes()[0].pods.len(), attempt.summary());
        lines.push(format!("{} {} beside {pods}: {}", summary.pod, summary.result, summary.end));
    }
    let bound = (0..4).map(|at| format!("shop/g-{at} scheduled beside {at}: bound"));
    assert_eq!(lines[..4], bound.collect::<Vec<_>>());
    assert!(lines[4].starts_with("shop/g-4 unschedulable beside 4: 0/1 nodes are available: 1 Insufficient cpu."));
    assert_eq!(
        cluster.metrics("scheduler_podgroup_schedule_attempts_total"),
        r#"scheduler_podgroup_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1"#
    );
    let reserve = r#"scheduler_framework_extension_point_duration_seconds_count{extension_point="Reserve""#;
    assert!(cluster.metrics(reserve).ends_with(" 4"), "{}", cluster.metrics(reserve));
}

/// Another plugin rejects a pod after the group has its nodes, so that the rest wait in Permit.
#[tokio::test(start_paused = true)]
async fn a_gang_that_loses_a_pod_releases_its_nodes_after_five_minutes() {
    let setup = Setup { permit: Permits::RejectsFirst, ..Setup::default() };
    let cluster = Cluster::start_with(Env::simulated(1), ONE_NODE, GANGS, setup).await;
    cluster.group(&gang("g", 3));
    cluster.pods("g", 3, &json!({}));
    cluster.wait(290).await;
    assert_eq!((cluster.scheduler.waiting_pods.list().len(), cluster.nodes_of("g").len()), (2, 0));
    let why = "rejected due to timeout after waiting 5m0s at plugin GangScheduling";
    let told = |cluster: &Cluster| {
        let bodies = cluster.server.requests().into_iter().map(|request| request.body);
        bodies.filter(|body| String::from_utf8_lossy(body).contains(why)).count()
    };
    assert_eq!(told(&cluster), 0);
    cluster.wait(20).await;
    assert!(told(&cluster) > 0, "the pod's status and an event say why");
    assert_eq!(cluster.nodes_of("g").len(), 0, "no part of the gang is bound");
    let waited = cluster.metrics(r#"scheduler_permit_wait_duration_seconds_count{result="Unschedulable"}"#);
    assert!(waited.ends_with(" 2"), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_tries_those_again_that_its_plugin_names() {
    let setup = Setup { permit: Permits::Activates, ..Setup::default() };
    let cluster = Cluster::start_with(Env::simulated(1), ONE_NODE, &[], setup).await;
    cluster.single("second", "1", json!({}));
    cluster.wait(60).await;
    assert_eq!((cluster.order().as_str(), cluster.lengths()), ("", [0, 0, 1, 0]));
    cluster.single("first", "1", json!({}));
    cluster.wait(1).await;
    assert_eq!(cluster.order(), "first second", "no event has woken the second one");
}

#[tokio::test(start_paused = true)]
async fn a_victim_that_waits_is_rejected_and_not_deleted() {
    let setup = Setup { permit: Permits::Waits, ..Setup::default() };
    let cluster = Cluster::start_with(Env::simulated(1), ONE_NODE, &[], setup).await;
    cluster.single("low", "4", json!({"metadata": {"labels": {"waits": "true"}}}));
    cluster.wait(5).await;
    assert_eq!(cluster.scheduler.waiting_pods.list().len(), 1);
    cluster.single("high", "4", json!({"spec": {"priority": 5}}));
    cluster.wait(5).await;
    assert_eq!(cluster.order(), "high");
    assert_eq!(cluster.server.count("DELETE"), 0);
    assert!(cluster.server.get("pods", "shop/low").is_some(), "it may get another node");
}

/// Fills the node with four pods, and adds one that needs their place.
async fn preempting(gates: &[&str], deletion: Duration, faults: &[&'static str]) -> Cluster {
    let setup = Setup { deletion, ..Setup::default() };
    let cluster = Cluster::start_with(Env::simulated(1), ONE_NODE, gates, setup).await;
    (0..4).for_each(|at| cluster.single(&format!("low-{at}"), "1", json!({})));
    cluster.wait(2).await;
    assert_eq!(cluster.bound.lock().len(), 4);
    for path_contains in faults {
        let answer = Status::internal("no");
        cluster.server.fault(Fault { path_contains, answer, retry_after_s: None });
    }
    cluster.single("high", "4", json!({"spec": {"priority": 5}}));
    cluster
}

#[tokio::test(start_paused = true)]
async fn a_preemptor_is_held_while_its_victims_are_deleted_and_other_pods_are_scheduled() {
    let cluster = preempting(&[], Duration::from_secs(20), &[]).await;
    cluster.wait(2).await;
    assert_eq!(cluster.lengths(), [0, 0, 1, 0], "the preemptor is in the queue");
    cluster.single("small", "0", json!({}));
    cluster.wait(2).await;
    assert!(cluster.order().ends_with("small"), "{}", cluster.order());
    // Three victims are deleted at the same time, and their events do not wake the pod.
    cluster.wait(18).await;
    assert_eq!((cluster.lengths(), cluster.server.list("pods").len()), ([0, 0, 0, 1], 3));
    cluster.wait(20).await;
    assert!(cluster.order().ends_with("small high"), "{}", cluster.order());
    assert_eq!(cluster.server.count("DELETE"), 4);
    let total = "scheduler_preemption_goroutines_execution_total";
    assert_eq!(cluster.metrics(total), format!(r#"{total}{{result="success"}} 1"#));
}

#[tokio::test(start_paused = true)]
async fn a_preemptor_is_tried_again_if_a_victim_cannot_be_deleted() {
    let cluster = preempting(&[], Duration::ZERO, &["DELETE /api/v1/namespaces/shop/pods/low"]).await;
    cluster.wait(30).await;
    assert!(cluster.order().ends_with("high"), "{}", cluster.order());
    let total = "scheduler_preemption_goroutines_execution_total";
    let counts = format!("{total}{{result=\"error\"}} 1\n{total}{{result=\"success\"}} 1");
    assert_eq!(cluster.metrics(total), counts);
}
