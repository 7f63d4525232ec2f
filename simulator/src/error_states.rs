//! Error states: objects that no controller can reconcile. A controller says what is wrong, tries again with a back-off, and
//! goes on with everything else.
//!
//! Each state has a namespace of its own, so that the requests about it can be counted. Objects without a namespace have the
//! name of the state.

mod refused;
mod workloads;
mod storage;
mod autoscaling;
mod housekeeping;

use super::Simulation;
use super::log::{Happened, Row};
use super::metrics_source::MetricsSource;
use super::user::User;
use apiserver::request_log::Logged;
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time until back-offs have grown.
const FIRST_MINUTES: Duration = Duration::from_secs(5 * 60);
/// Number of minutes that are counted. At their end rollouts have exceeded their deadline.
const COUNTED_MINUTES: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// Time in which servers and controllers take note of policies and quotas.
const NOTICE: Duration = Duration::from_secs(5);
/// Kinds that are created before all others, since they decide about those.
const FIRST_KINDS: [&str; 7] = [
    "ResourceQuota",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "StorageClass",
];

/// A state, what tells of it, and the requests that it may cost.
#[derive(Clone, Copy)]
struct ErrorState {
    /// Name of the namespace, and of objects without one.
    name: &'static str,
    objects: fn() -> Vec<Value>,
    /// What a user can read: `KIND REASON: MESSAGE` of an event, or `KIND TYPE=STATUS REASON` of a condition, each from its
    /// beginning.
    told: &'static [&'static str],
    /// Most requests of all controllers together in any minute.
    requests_per_minute: usize,
    /// Kinds of the objects without which everything converges; empty if nothing helps.
    cured_without: &'static [&'static str],
}

/// Brings about every error state in one cluster, and counts the controllers' requests once the first minutes are over. Then
/// the causes are removed where that is possible, and the namespace otherwise.
pub async fn endure(simulation: &Simulation) {
    let user = User::new(simulation, 0);
    simulation.metrics.set("no-number", "NaN");
    simulation.metrics.set("negative", "-5");
    simulation.metrics.set_with_age("old", "5", SignedDuration::from_hours(1));
    for object in MetricsSource::registration() {
        user.create_any(&object).await;
    }
    let states = states();
    bring_about(simulation, &user, &states).await;
    housekeeping::own_each_other(simulation, &user).await;
    simulation.env().sleep(FIRST_MINUTES).await;
    let busiest = count(simulation, &states).await;
    let told = told(simulation, &states).await;
    let mut wrong = Vec::new();
    for ErrorState { name, requests_per_minute: most, told: expected, .. } in &states {
        let said = told.get(name).cloned().unwrap_or_default();
        let requests = busiest.get(name).copied().unwrap_or_default();
        simulation.cluster.log_line(&format!("{name}: {requests} requests in its busiest minute; {said:?}"));
        let silent = expected.iter().filter(|expected| !said.iter().any(|line| line.starts_with(**expected)));
        wrong.extend(silent.map(|expected| format!("{name}: nothing says {expected:?}, but {said:?}")));
        if requests > *most {
            wrong.push(format!("{name}: {requests} requests in a minute, {most} are the most"));
        }
    }
    if !wrong.is_empty() {
        simulation.fail(format!("error states are silent or busy:\n  {}", wrong.join("\n  ")), Vec::new()).await;
    }
    housekeeping::end_circle(simulation).await;
    cure(&user, &states).await;
}

fn states() -> Vec<ErrorState> {
    [refused::STATES, workloads::STATES, storage::STATES, autoscaling::STATES, housekeeping::STATES].concat()
}

/// Returns the objects of a state, in its namespace.
fn objects(state: &ErrorState) -> Vec<Value> {
    let mut objects = (state.objects)();
    objects.iter_mut().for_each(|object| object["metadata"]["namespace"] = json!(state.name));
    objects
}

async fn bring_about(simulation: &Simulation, user: &User<'_>, states: &[ErrorState]) {
    for state in states {
        user.create_any(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": state.name}})).await;
    }
    let is_first = |object: &Value| FIRST_KINDS.iter().any(|kind| object["kind"] == *kind);
    let (first, others): (Vec<Value>, Vec<Value>) = states.iter().flat_map(objects).partition(is_first);
    for object in &first {
        user.create_any(object).await;
    }
    simulation.env().sleep(NOTICE).await;
    for object in &others {
        user.create_any(object).await;
    }
}

/// Removes the causes of the states, and the states that have none to remove. CronJobs go in any case, since they never rest.
async fn cure(user: &User<'_>, states: &[ErrorState]) {
    for state in states {
        let is_curable = !state.cured_without.is_empty();
        let mut cause = objects(state);
        cause.retain(|object| {
            let kind = object["kind"].as_str().unwrap_or_default();
            matches!(kind, "APIService" | "CronJob") || state.cured_without.contains(&kind)
        });
        for object in &cause {
            user.delete_any(object).await;
        }
        if !is_curable {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": state.name}});
            user.delete_any(&namespace).await;
        }
    }
}

/// Returns the number of requests of the controllers in the busiest minute, by state.
async fn count(simulation: &Simulation, states: &[ErrorState]) -> BTreeMap<&'static str, usize> {
    let mut busiest: BTreeMap<&'static str, usize> = BTreeMap::new();
    for _ in 0..COUNTED_MINUTES {
        let from = simulation.log.count();
        simulation.env().sleep(MINUTE).await;
        let minute = simulation.log.since(from);
        let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
        for path in minute.iter().filter_map(controllers_path) {
            if let Some(name) = path.split('/').find_map(|segment| concerned(states, segment)) {
                *counts.entry(name).or_default() += 1;
            }
        }
        for (name, count) in counts {
            let most = busiest.entry(name).or_default();
            *most = count.max(*most);
        }
    }
    busiest
}

/// Returns the path of a controller's request, if the row is one.
fn controllers_path(row: &Row) -> Option<&str> {
    let Happened::Api(Logged::Request { user, verb, path, .. }) = &row.happened else { return None };
    let is_controller =
        user.starts_with("system:serviceaccount:kube-system:") || user == "system:kube-controller-manager";
    (is_controller && verb != "watch").then_some(path)
}

/// Returns the state that a name belongs to: that of its namespace, or one that contains the name of the state.
fn concerned(states: &[ErrorState], name: &str) -> Option<&'static str> {
    states.iter().map(|state| state.name).find(|state| name.contains(state))
}

/// Returns what the events and the conditions of each state say.
async fn told(simulation: &Simulation, states: &[ErrorState]) -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut told: BTreeMap<&'static str, BTreeSet<String>> = BTreeMap::new();
    for entry in simulation.checked_store.snapshot().await.entries {
        let object: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let places = ["/metadata/namespace", "/involvedObject/name", "/metadata/name"].map(text);
        let Some(state) = places.into_iter().find_map(|place| concerned(states, place)) else { continue };
        let said = told.entry(state).or_default();
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        said.extend(conditions.map(|condition| {
            let of = |field: &str| condition[field].as_str().unwrap_or_default();
            format!("{} {}={} {}", text("/kind"), of("type"), of("status"), of("reason"))
        }));
        if text("/kind") == "Event" {
            said.insert(format!("{} {}: {}", text("/involvedObject/kind"), text("/reason"), text("/message")));
        }
    }
    told
}
