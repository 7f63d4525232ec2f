//! Scenarios of pods with stories: a few pods play every kind of story, while their fleet is killed or is cut off from
//! the API server.

use super::faults::FaultProfile;
use super::part::Part;
use super::safety::lives;
use super::user::User;
use super::{Run, Simulation, Start};
use client::{DeleteOptions, ListOptions, Propagation};
use proto::kinds::api::core::v1::{ContainerState, ContainerStatus, Event, Node, Pod, PodStatus};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;
use storage::Entry;

/// The seed of a run whose number says when the fleet is killed.
const SEED: u64 = 1;
/// Time that the fleet is down after a kill.
const DOWN: Duration = Duration::from_secs(3);
/// Times, since the creation of the pods, at which one is deleted and at which all ends are compared. Nothing happens
/// to any pod within `DOWN` before the latter.
const DELETED_AFTER: Duration = Duration::from_secs(60);
const COMPARED_AFTER: Duration = Duration::from_secs(200);

fn pod(name: &str, annotations: Value, spec: Value) -> Value {
    let metadata = json!({"name": name, "annotations": annotations});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

/// Returns the container `c`, with fields of its own.
fn container(fields: Value) -> Value {
    let mut container = json!({"name": "c", "image": "web:1", "ports": [{"containerPort": 80}]});
    for (name, value) in fields.as_object().into_iter().flatten() {
        container[name] = value.clone();
    }
    container
}

/// Time for which a fleet is cut off from the API server, and the times before and after it.
const CUT_OFF: Duration = Duration::from_secs(600);
const BEFORE_CUT: Duration = Duration::from_secs(20);
const AFTER_CUT: Duration = Duration::from_secs(60);

/// Returns a few pods that live through everything that a story can say.
fn pods() -> Vec<Value> {
    let one = |policy: &str, fields: Value| json!({"restartPolicy": policy, "containers": [container(fields)]});
    let http = |period: u32| json!({"httpGet": {"port": 80}, "periodSeconds": period});
    vec![
        pod("runner", json!({"orrery.dev/run-for": "20s"}), one("Never", json!({}))),
        pod("crasher", json!({"orrery.dev/crash-after": "15s"}), one("Always", json!({}))),
        pod(
            "third-time",
            json!({"orrery.dev/run-for": "5s", "orrery.dev/exit-code": "1,1,0"}),
            one("OnFailure", json!({})),
        ),
        pod("greedy", json!({"orrery.dev/run-for": "2m", "orrery.dev/oom-after": "25s"}), one("Never", json!({}))),
        pod(
            "flapper",
            json!({"orrery.dev/readiness": "flap 20s/10s"}),
            one("Always", json!({"readinessProbe": http(2)})),
        ),
        pod(
            "sick",
            json!({"orrery.dev/startup": "fail, ok@4s", "orrery.dev/liveness": "ok, fail@30s"}),
            one("Always", json!({"startupProbe": http(2), "livenessProbe": http(3)})),
        ),
        pod(
            "prepared",
            json!({
                "run-for.orrery.dev/first": "3s", "run-for.orrery.dev/second": "2s",
                "exit-code.orrery.dev/second": "1,0", "run-for.orrery.dev/c": "30s",
                "stop-time.orrery.dev/side": "2s",
            }),
            json!({
                "restartPolicy": "OnFailure",
                "initContainers": [
                    {"name": "first", "image": "init:1"},
                    {"name": "side", "image": "side:1", "restartPolicy": "Always"},
                    {"name": "second", "image": "init:2"},
                ],
                "containers": [container(json!({}))],
            }),
        ),
        pod("late", json!({}), {
            let mut spec = one("Always", json!({}));
            spec["activeDeadlineSeconds"] = json!(40);
            spec
        }),
        pod("leaver", json!({"orrery.dev/stop-time": "8s"}), {
            let hook = json!({"exec": {"command": ["sh", "-c", "sleep 3"]}});
            let mut spec = one("Always", json!({"lifecycle": {"preStop": hook}}));
            spec["terminationGracePeriodSeconds"] = json!(20);
            spec
        }),
    ]
}

/// The ends of all pods by name, each in one line.
type Ends = BTreeMap<String, String>;

/// Returns what a user sees of a pod's end: its phase, and of each container its restarts and its states.
fn end(status: &PodStatus) -> String {
    let mut line = format!("{} {}", text(&status.phase), text(&status.reason));
    for ContainerStatus { name, restart_count, ready, state, last_state, .. } in lives::containers(status) {
        let (now, last) = (state_line(state.as_ref()), state_line(last_state.as_ref()));
        let _ = write!(line, "; {name} x{restart_count} {now} after {last}{}", if *ready { " ready" } else { "" });
    }
    line
}

fn text(field: &Option<String>) -> &str {
    field.as_deref().unwrap_or_default()
}

fn state_line(state: Option<&ContainerState>) -> String {
    let state = state.cloned().unwrap_or_default();
    match (state.waiting, state.running, state.terminated) {
        (Some(waiting), _, _) => text(&waiting.reason).to_owned(),
        (_, Some(_), _) => "running".to_owned(),
        (_, _, Some(exit)) => format!("{}({})", text(&exit.reason), exit.exit_code),
        _ => "nothing".to_owned(),
    }
}

/// Plays all stories; returns how the pods have ended, and how often the fleet has written meanwhile.
async fn play(simulation: &Simulation, killed_after: Option<u32>) -> (Ends, u32) {
    let (user, env) = (User::new(simulation, 0), simulation.env());
    let written = simulation.wire.writes_of(Part::Nodes);
    if let Some(writes) = killed_after {
        simulation.wire.kill_after_writes(Part::Nodes, writes, DOWN);
    }
    for pod in pods() {
        user.create("", "pods", pod).await;
    }
    env.sleep(DELETED_AFTER).await;
    let api = simulation.admin().api::<Pod>("default");
    let deleted = api.delete("leaver", &DeleteOptions::default()).await;
    deleted.unwrap_or_else(|error| panic!("the pod is deleted: {error}"));
    env.sleep(COMPARED_AFTER - DELETED_AFTER).await;
    let found = api.list(&ListOptions::default()).await.unwrap_or_else(|error| panic!("pods are listed: {error}"));
    let ends = found.items.iter().filter_map(|pod| Some((pod.metadata.name.clone()?, end(pod.status.as_ref()?))));
    let ends = ends.collect();
    check_events(simulation, &found.items).await;
    check_restarts(simulation).await;
    (ends, simulation.wire.writes_of(Part::Nodes) - written)
}

/// Checks that no write has counted more than one restart of a container.
async fn check_restarts(simulation: &Simulation) {
    let read = |entry: &Option<Entry>| serde_json::from_slice::<Pod>(&entry.as_ref()?.value).ok()?.status;
    let writes = simulation.checked_store.since(0);
    for write in writes.iter().filter(|write| write.event.key.starts_with("/registry/pods/")) {
        let (Some(before), Some(after)) = (read(&write.event.previous), read(&write.event.current)) else { continue };
        for was in lives::containers(&before) {
            let is = lives::containers(&after).find(|is| is.name == was.name);
            if let Some(is) = is.filter(|is| is.restart_count > was.restart_count + 1) {
                let (key, name, old, new) = (&write.event.key, &was.name, was.restart_count, is.restart_count);
                let what = format!("{key}: its container {name} goes from {old} restarts to {new} at once");
                simulation.fail(what, Vec::new()).await;
            }
        }
    }
}

/// Checks that no start of a container was recorded twice.
async fn check_events(simulation: &Simulation, pods: &[Pod]) {
    let events = simulation.admin().api::<Event>("default").list(&ListOptions::default()).await;
    let events = events.unwrap_or_else(|error| panic!("events are listed: {error}")).items;
    for pod in pods {
        for status in pod.status.iter().flat_map(lives::containers) {
            let field = format!("{{{}}}", status.name);
            let of_starts = events.iter().filter(|event| {
                let about = &event.involved_object;
                about.uid == pod.metadata.uid
                    && event.reason.as_deref() == Some("Started")
                    && about.field_path.as_ref().is_some_and(|path| path.ends_with(&field))
            });
            let recorded: i32 = of_starts.map(|event| event.count.unwrap_or(1)).sum();
            let runs = status.restart_count + 1;
            if recorded > runs {
                let (pod, name) = (text(&pod.metadata.name), &status.name);
                let what = format!("{recorded} events say that {name} of {pod} was started, which ran {runs} times");
                simulation.fail(what, Vec::new()).await;
            }
        }
    }
}

/// Plays all stories without a fault, and logs how they end.
pub fn played(start: Start) -> Run<()> {
    Simulation::run_whole(start, 1, async |simulation| {
        let (ends, writes) = play(simulation, None).await;
        for (name, end) in ends {
            simulation.cluster.log_line(&format!("{name} ends as {end}"));
        }
        simulation.cluster.log_line(&format!("{writes} writes of the fleet"));
    })
}

/// Kills the fleet after its write of this number, before it gets the answer; every pod ends as it does without a kill.
pub fn killed(start: Start) -> Run<()> {
    let write = start.seed;
    let undisturbed = Simulation::run_whole(SEED, 1, async |simulation| play(simulation, None).await);
    let (expected, _) = match undisturbed.outcome {
        Ok(outcome) => outcome,
        Err(report) => {
            let Run { log, virtual_time, trace, .. } = undisturbed;
            return Run { log, virtual_time, outcome: Err(report), trace };
        }
    };
    Simulation::run_whole(SEED, 1, async |simulation| {
        let (ends, _) = play(simulation, u32::try_from(write).ok()).await;
        for (name, end) in &expected {
            let found = ends.get(name).map_or("nothing", String::as_str);
            if found != end {
                let what = format!("killed at write {write}, {name} ends as {found}; without the kill as {end}");
                simulation.fail(what, Vec::new()).await;
            }
        }
        if ends.len() != expected.len() {
            simulation.fail(format!("{} pods are left instead of {}", ends.len(), expected.len()), Vec::new()).await;
        }
    })
}

/// Time for which the stories are played under faults, and the time after it in which each pod with an end reaches it.
const FAULT_PHASE: Duration = Duration::from_secs(200);
const RECOVERY: Duration = Duration::from_secs(200);

/// Plays all stories under every fault but the loss of nodes. Pods that end by themselves end as they do without a fault.
pub fn under_faults(start: Start) -> Run<()> {
    let undisturbed = Simulation::run_whole(SEED, 1, async |simulation| play(simulation, None).await);
    let (expected, _) = match undisturbed.outcome {
        Ok(outcome) => outcome,
        Err(report) => {
            let Run { log, virtual_time, trace, .. } = undisturbed;
            return Run { log, virtual_time, outcome: Err(report), trace };
        }
    };
    let has_ended = |end: &str| end.starts_with("Succeeded") || end.starts_with("Failed");
    Simulation::run_whole(start, 1, async |simulation| {
        let user = User::new(simulation, 0);
        let work = async {
            for pod in pods() {
                user.create("", "pods", pod).await;
            }
            simulation.env().sleep(DELETED_AFTER).await;
            user.delete("", "pods", "leaver", Propagation::Background).await;
        };
        let profile = FaultProfile { nodes_to_lose: 0, longest_pause: Duration::from_secs(10), steps_clocks: false };
        futures::join!(work, simulation.inject_faults(profile, FAULT_PHASE));
        simulation.env().sleep(RECOVERY).await;
        let found = simulation.admin().api::<Pod>("default").list(&ListOptions::default()).await;
        let found = found.unwrap_or_else(|error| panic!("pods are listed: {error}")).items;
        check_events(simulation, &found).await;
        let ends = found.iter().filter_map(|pod| Some((pod.metadata.name.clone()?, end(pod.status.as_ref()?))));
        let ends: Ends = ends.collect();
        for (name, expected) in &expected {
            let end = ends.get(name).map_or("gone", String::as_str);
            if has_ended(expected) && end != expected || has_ended(end) != has_ended(expected) {
                simulation.fail(format!("{name} ends as {end} instead of {expected}"), Vec::new()).await;
            }
        }
        if ends.contains_key("leaver") {
            simulation.fail("the deleted pod leaver is still there".to_owned(), Vec::new()).await;
        }
    })
}

/// Returns pods that tolerate a lost node for ever, for a time, and for the 300 seconds that admission adds, and how each
/// one ends if it stays.
fn tolerating_pods() -> [(Value, &'static str); 5] {
    let one = |name: &str, story: Value, policy: &str, seconds: Value| {
        let toleration =
            |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
        let tolerations = match seconds == json!(0) {
            true => json!([]),
            false => json!([toleration("node.kubernetes.io/unreachable"), toleration("node.kubernetes.io/not-ready")]),
        };
        let containers = [container(json!({}))];
        let mut spec = json!({"restartPolicy": policy, "containers": containers, "tolerations": tolerations});
        spec["nodeName"] = json!("node-0");
        pod(name, story, spec)
    };
    let (crashed, runs) =
        ("Running ; c x6 CrashLoopBackOff after Error(1)", "Running ; c x0 running after nothing ready");
    [
        (one("crasher", json!({"orrery.dev/crash-after": "15s"}), "Always", Value::Null), crashed),
        (
            one("runner", json!({"orrery.dev/run-for": "90s"}), "Never", Value::Null),
            "Succeeded ; c x0 Completed(0) after nothing",
        ),
        (one("patient", json!({}), "Always", json!(900)), runs),
        (one("hasty", json!({}), "Always", json!(120)), runs),
        (one("plain", json!({}), "Always", json!(0)), runs),
    ]
}

/// Plays the tolerating pods on the first of `nodes` nodes, which `disconnect` cuts off for ten minutes; compares how
/// they end, except for those in `evicted`, which are gone.
fn play_cut_off(start: Start, nodes: u32, disconnect: fn(&Simulation, bool), evicted: &[&str]) -> Run<()> {
    Simulation::run_whole(start, nodes, async |simulation| {
        let (user, env) = (User::new(simulation, 0), simulation.env());
        for (pod, _) in tolerating_pods() {
            user.create("", "pods", pod).await;
        }
        env.sleep(BEFORE_CUT).await;
        disconnect(simulation, true);
        for _ in 0..2 {
            env.sleep(CUT_OFF / 2).await;
            let (ready, leaving) = (ready(simulation).await, leaving(simulation).await);
            simulation.cluster.log_line(&format!("the node is Ready={ready}; [{leaving}] leave"));
        }
        disconnect(simulation, false);
        env.sleep(AFTER_CUT).await;
        simulation.cluster.log_line(&format!("in the end the node is Ready={}", ready(simulation).await));
        let found = simulation.admin().api::<Pod>("default").list(&ListOptions::default()).await;
        let found = found.unwrap_or_else(|error| panic!("pods are listed: {error}")).items;
        check_events(simulation, &found).await;
        for (pod, expected) in tolerating_pods() {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let left = found.iter().find(|pod| text(&pod.metadata.name) == name);
            let ends = left.and_then(|pod| pod.status.as_ref()).map_or("gone".to_owned(), end);
            if ends != if evicted.contains(&name) { "gone" } else { expected } {
                simulation.fail(format!("{name} ends as {ends} instead of {expected}"), Vec::new()).await;
            }
            simulation.cluster.log_line(&format!("{name} ends as {ends}"));
        }
    })
}

/// Cuts off the whole fleet. The controller manager evicts nobody, since no node at all is left.
pub fn cut_off(start: Start) -> Run<()> {
    let disconnect = |simulation: &Simulation, cut_off: bool| {
        simulation.cluster.log_fault(if cut_off { "the nodes reach nobody" } else { "the nodes are back" });
        simulation.wire.set_cut_off(Part::Nodes, cut_off);
    };
    play_cut_off(start, 1, disconnect, &[])
}

/// Cuts off one node of three. Only the pods whose toleration ends are evicted.
pub fn lost_node(start: Start) -> Run<()> {
    play_cut_off(start, 3, |simulation, cut_off| simulation.set_unreachable("node-0", cut_off), &["hasty", "plain"])
}

/// Returns the names of the pods that are being deleted.
async fn leaving(simulation: &Simulation) -> String {
    let pods = simulation.admin().api::<Pod>("default").list(&ListOptions::default()).await;
    let pods = pods.map(|list| list.items).unwrap_or_default();
    let leaving = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some());
    leaving.map(|pod| text(&pod.metadata.name)).collect::<Vec<_>>().join(" ")
}

/// Returns the value of the condition `Ready` of the first node.
async fn ready(simulation: &Simulation) -> String {
    let node = simulation.admin().api::<Node>("").get("node-0").await.ok();
    let conditions = node.and_then(|node| node.status?.conditions).unwrap_or_default();
    conditions.into_iter().find(|one| one.type_ == "Ready").map(|one| one.status).unwrap_or_default()
}
