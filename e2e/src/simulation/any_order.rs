//! Path independence: the same edits in any order end in the same state, and edits that are made again write nothing.
//!
//! One cluster has some copies of a Deployment, a StatefulSet and a DaemonSet. Each copy gets the same edits in an order of its
//! own, sometimes in the middle of a rollout.

use super::Simulation;
use super::user::{self, User};
use component_base::rng::Random;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use storage::Entry;

/// Number of copies of each object.
const COPIES: usize = 3;
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
const QUIET: Duration = Duration::from_secs(60);
const KINDS: [(&str, &str); 3] =
    [("deployments", "Deployment"), ("statefulsets", "StatefulSet"), ("daemonsets", "DaemonSet")];

/// Returns edits that do not touch the same field.
fn edits(resource: &str) -> Vec<Value> {
    let of_pods = |spec: Value| json!({"spec": {"template": spec}});
    let mut edits = vec![
        of_pods(json!({"spec": {"containers": [{"name": "c", "image": "web:2"}]}})),
        of_pods(json!({"metadata": {"labels": {"tier": "front"}}})),
        of_pods(json!({"spec": {"terminationGracePeriodSeconds": 2}})),
        json!({"spec": {"minReadySeconds": 1}}),
        json!({"spec": {"revisionHistoryLimit": 0}}),
        json!({"metadata": {"annotations": {"edited": "yes"}}}),
    ];
    if resource != "daemonsets" {
        edits.push(json!({"spec": {"replicas": 3}}));
    }
    edits
}

fn object(kind: &str, name: &str) -> Value {
    let mut object = user::stateful_set(name, 1, "web:1");
    object["kind"] = json!(kind);
    object["metadata"]["namespace"] = json!("default");
    if let Some(spec) = object["spec"].as_object_mut() {
        let foreign = ["serviceName", "replicas"];
        foreign.iter().filter(|_| kind == "DaemonSet").for_each(|field| drop(spec.remove(*field)));
        foreign[..1].iter().filter(|_| kind == "Deployment").for_each(|field| drop(spec.remove(*field)));
    }
    object
}

/// Edits all copies, each in its own order, and checks that they end alike.
pub async fn check(simulation: &Simulation) {
    let (user, random) = (&User::new(simulation, 0), &simulation.env().random("simulation/any-order"));
    let copies = (0..COPIES).flat_map(|number| KINDS.map(|(resource, kind)| (resource, kind, format!("copy{number}"))));
    let edited = copies.clone().map(|(resource, kind, name)| async move {
        user.create_any(&object(kind, &name)).await;
        for edit in shuffled(edits(resource), random) {
            simulation.env().sleep(LONGEST_PAUSE.mul_f64(random.unit())).await;
            user.patch("apps", resource, "default", &name, edit).await;
        }
    });
    futures::future::join_all(edited).await;
    simulation.converges().await;
    let ends = ends(&simulation.checked_store.snapshot().await.entries);
    for (resource, _) in KINDS {
        let end = |number: usize| &ends[&(resource, format!("copy{number}"))];
        if let Some(other) = (1..COPIES).find(|number| end(*number) != end(0)) {
            let what = format!("{resource}: one order of edits ends as\n{}\nand another as\n{}", end(0), end(other));
            simulation.fail(what, Vec::new()).await;
        }
    }
    let revision = simulation.checked_store.snapshot().await.revision;
    for (resource, _, name) in copies {
        for edit in edits(resource) {
            user.patch("apps", resource, "default", &name, edit).await;
        }
    }
    let of_copies =
        simulation.checked_store.since(revision).iter().filter(|write| write.event.key.contains("copy")).count();
    if of_copies > 0 {
        simulation.fail(format!("the same edits, made again, led to {of_copies} writes"), Vec::new()).await;
    }
    simulation.stays_quiet(QUIET).await;
}

fn shuffled(mut edits: Vec<Value>, random: &Random) -> Vec<Value> {
    let mut order = Vec::new();
    while !edits.is_empty() {
        order.push(edits.swap_remove(random.below(edits.len())));
    }
    order
}

/// Returns the spec and the status of each copy and of its pods, without names, times and hashes.
fn ends(entries: &[Entry]) -> BTreeMap<(&'static str, String), Value> {
    let mut ends = BTreeMap::new();
    let objects: Vec<(&str, Value)> =
        entries.iter().filter_map(|entry| Some((&*entry.key, serde_json::from_slice(&entry.value).ok()?))).collect();
    for (resource, _) in KINDS {
        let prefix = format!("/registry/{resource}/default/");
        for (key, object) in &objects {
            let Some(name) = key.strip_prefix(&prefix) else { continue };
            let of_it = |pod: &Value| {
                let owner = pod["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default();
                owner == name || (resource == "deployments" && owner.starts_with(&format!("{name}-")))
            };
            let kind =
                if resource == "deployments" { "ReplicaSet" } else { object["kind"].as_str().unwrap_or_default() };
            let pods = objects.iter().filter(|(key, pod)| {
                key.starts_with("/registry/pods/")
                    && pod["metadata"]["ownerReferences"][0]["kind"] == kind
                    && of_it(pod)
            });
            let pods: Vec<Value> = pods.map(|(_, pod)| end_of_pod(pod)).collect();
            let counts: BTreeMap<&String, &Value> = object["status"]
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(field, value)| {
                    value.is_number() && *field != "observedGeneration" && *field != "collisionCount"
                })
                .collect();
            let end = json!({"spec": object["spec"], "status": counts, "pods": pods});
            let nameless = end.to_string().replace(name, "copy");
            ends.insert((resource, name.to_owned()), serde_json::from_str(&nameless).unwrap_or_default());
        }
    }
    ends
}

/// Returns what the edits decide about a pod.
fn end_of_pod(pod: &Value) -> Value {
    json!({
        "image": pod["spec"]["containers"][0]["image"],
        "tier": pod["metadata"]["labels"]["tier"],
        "grace": pod["spec"]["terminationGracePeriodSeconds"],
        "phase": pod["status"]["phase"],
    })
}
