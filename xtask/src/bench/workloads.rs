//! The whole control plane at work: a Deployment that grows and shrinks, and pods that find their nodes. No node agents:
//! what is measured is the API server, the controllers and the scheduler.

use super::load::closed_loop;
use super::measurement::Measurement;
use super::objects::{NAMESPACE, pod, post};
use super::placements;
use super::servers::Servers;
use super::{Bench, Error};
use client::request::{Call, JSON};
use client::watch::{Watch, WatchEvent};
use client::{Client, ListOptions};
use component_base::env::Env;
use http::Method;
use proto::gvk::Gvr;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const REPLICAS: usize = 1000;
const NODES: usize = 1000;
const PODS: usize = 2000;
const ZONES: usize = 3;
const CREATORS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(300);
const MERGE: &str = "application/merge-patch+json";

/// A Deployment up to its replicas, by the pods that are there, and down to none.
pub async fn rollout(bench: &Bench) -> Result<Vec<Measurement>, Error> {
    let mut servers = Servers::start(bench, "embedded").await?;
    servers.add(
        bench,
        "controller-manager",
        &["--leader-elect=false", "--controllers=*,-node-lifecycle-controller"],
    )?;
    let client = servers.client()?;
    let replicas = bench.count(REPLICAS);
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    // One pod that is not counted shows that the controllers are at work.
    post(client.clone(), deployments, deployment("warm", 1)).await?;
    let mut pods = watch_pods(&client).await?;
    let mut there = BTreeSet::new();
    until(&bench.env, &mut pods, |event| count(&mut there, event) == 1).await?;
    let mut measured = Vec::new();
    let mut before = servers.usage()?;
    let began = bench.env.now();
    post(client.clone(), deployments, deployment("large", replicas)).await?;
    until(&bench.env, &mut pods, |event| count(&mut there, event) == replicas + 1).await?;
    let up = bench.env.now().duration_since(began);
    let after = servers.usage()?;
    let what = format!("rollout to {replicas} replicas, per pod");
    measured.push(Measurement::new("rollout", what, "embedded", replicas as u64, up, (&before, &after)));
    before = after;
    let began = bench.env.now();
    let scale = json!({"spec": {"replicas": 0}}).to_string();
    client.call(&Call::new(Method::PATCH, format!("{deployments}/large")).body(MERGE, scale)).await?;
    until(&bench.env, &mut pods, |event| count(&mut there, event) == 1).await?;
    let down = bench.env.now().duration_since(began);
    let after = servers.usage()?;
    let what = format!("from {replicas} replicas to none, per pod");
    measured.push(Measurement::new("rollout", what, "embedded", replicas as u64, down, (&before, &after)));
    Ok(measured)
}

fn deployment(name: &str, replicas: usize) -> Value {
    let mut template = pod("template", 0);
    template["metadata"] = json!({"labels": {"app": name}});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": template["metadata"], "spec": template["spec"]},
        },
    })
}

/// How many pods there are after this event.
fn count(there: &mut BTreeSet<String>, event: &PodEvent) -> usize {
    if event.deleted {
        there.remove(&event.name);
    } else {
        there.insert(event.name.clone());
    }
    there.len()
}

/// What pods ask for beside CPU and memory.
#[derive(Clone, Copy)]
enum Profile {
    Basic,
    /// To be in the zone of its group.
    Affinity,
    /// To share no node with its group.
    AntiAffinity,
    /// To be spread over the zones.
    Spread,
}

const PROFILES: [(&str, Profile); 4] = [
    ("basic", Profile::Basic),
    ("affinity", Profile::Affinity),
    ("anti-affinity", Profile::AntiAffinity),
    ("spread", Profile::Spread),
];

/// Pods over nodes, one profile after the other, each on servers of its own.
pub async fn schedule(bench: &Bench) -> Result<Vec<Measurement>, Error> {
    let mut measured = Vec::new();
    for (name, profile) in PROFILES {
        measured.push(schedule_profile(bench, name, profile).await?);
    }
    Ok(measured)
}

async fn schedule_profile(bench: &Bench, name: &str, profile: Profile) -> Result<Measurement, Error> {
    let mut servers = Servers::start(bench, "embedded").await?;
    let clients = servers.clients(CREATORS)?;
    let (nodes, pods) = (bench.count(NODES), bench.count(PODS));
    closed_loop(&bench.env, &clients, nodes, make_node).await.must_succeed()?;
    servers.add(bench, "scheduler", &["--leader-elect=false"])?;
    let mut watch = watch_pods(&clients[0]).await?;
    let collection = format!("{NAMESPACE}/pods");
    // One pod that is not counted shows that the scheduler knows the nodes.
    post(clients[0].clone(), &collection, pod("warm", 0)).await?;
    until(&bench.env, &mut watch, |event| !event.node.is_empty()).await?;
    let before = servers.usage()?;
    let began = bench.env.now();
    let creating = closed_loop(&bench.env, &clients, pods, |client, number| {
        let collection = &collection;
        async move { post(client, collection, profiled(profile, number, nodes, pods)).await }
    });
    let mut bound = BTreeMap::new();
    let binding = until(&bench.env, &mut watch, |event| {
        if event.name != "warm" && !event.node.is_empty() {
            bound.entry(event.name.clone()).or_insert_with(|| event.node.clone());
        }
        bound.len() == pods
    });
    let (created, all_bound) = futures::join!(creating, binding);
    let created = created.must_succeed()?;
    all_bound?;
    let took = bench.env.now().duration_since(began);
    let after = servers.usage()?;
    let what = format!("schedule {pods} pods over {nodes} nodes, {name}");
    let measurement = Measurement::new("schedule", what, "embedded", pods as u64, took, (&before, &after));
    let wrong = placements::wrong(&clients[0]).await?;
    Ok(measurement.errors(created.errors + violations(profile, &bound, nodes, pods) + wrong))
}

/// A node that is ready though nobody runs it.
async fn make_node(client: Client, number: usize) -> Result<(), client::Error> {
    let name = format!("n-{number}");
    let capacity = json!({"cpu": "32", "memory": "256Gi", "pods": "250", "ephemeral-storage": "100Gi"});
    let status = json!({
        "capacity": capacity, "allocatable": capacity,
        "conditions": [{"type": "Ready", "status": "True", "reason": "Benchmark", "message": "nobody runs this node"}],
    });
    let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone_of(number)});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
    let call = Call::new(Method::POST, "/api/v1/nodes").body(JSON, node.to_string());
    client.call(&call).await?;
    let patch = |path: String, body: Value| Call::new(Method::PATCH, path).body(MERGE, body.to_string());
    client.call(&patch(format!("/api/v1/nodes/{name}/status"), json!({"status": status}))).await?;
    // New nodes are tainted until a controller finds them ready.
    client.call(&patch(format!("/api/v1/nodes/{name}"), json!({"spec": {"taints": null}}))).await.map(drop)
}

fn zone_of(node: usize) -> String {
    format!("zone-{}", node % ZONES)
}

/// The group of a pod: the pods that attract or repel each other.
fn group(profile: Profile, pod: usize, nodes: usize, pods: usize) -> String {
    let groups = match profile {
        Profile::Affinity => 10,
        // Few enough in a group that each finds a node.
        Profile::AntiAffinity => pods.div_ceil((nodes * 8 / 10).max(1)),
        Profile::Basic | Profile::Spread => 1,
    };
    format!("g{}", pod % groups)
}

fn profiled(profile: Profile, number: usize, nodes: usize, pods: usize) -> Value {
    let mut object = pod(&format!("p-{number}"), 0);
    let labels = json!({"group": group(profile, number, nodes, pods)});
    object["metadata"]["labels"] = labels.clone();
    let selector = json!({"matchLabels": labels});
    let term = |key: &str| json!({"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": selector, "topologyKey": key}]});
    match profile {
        Profile::Basic => {}
        Profile::Affinity => {
            object["spec"]["affinity"] = json!({"podAffinity": term("topology.kubernetes.io/zone")});
        }
        Profile::AntiAffinity => {
            object["spec"]["affinity"] = json!({"podAntiAffinity": term("kubernetes.io/hostname")});
        }
        Profile::Spread => {
            object["spec"]["topologySpreadConstraints"] = json!([{
                "maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector,
            }]);
        }
    }
    object
}

/// Placements that the profile forbids.
fn violations(profile: Profile, bound: &BTreeMap<String, String>, nodes: usize, pods: usize) -> u64 {
    let number = |name: &str| name.get(2..).and_then(|digits| digits.parse::<usize>().ok()).unwrap_or_default();
    let mut by_group: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (pod, node) in bound {
        by_group.entry(group(profile, number(pod), nodes, pods)).or_default().push(node);
    }
    let zones = |placed: &[&str]| placed.iter().map(|node| zone_of(number(node))).collect::<Vec<_>>();
    let wrong = by_group.values().map(|placed| match profile {
        Profile::Basic => 0,
        Profile::Affinity => zones(placed).into_iter().collect::<BTreeSet<_>>().len() - 1,
        Profile::AntiAffinity => placed.len() - placed.iter().collect::<BTreeSet<_>>().len(),
        Profile::Spread => {
            let zones = zones(placed);
            let sizes = (0..ZONES).map(|zone| zones.iter().filter(|other| **other == zone_of(zone)).count());
            let (least, most) = sizes.fold((usize::MAX, 0), |(least, most), size| (least.min(size), most.max(size)));
            (most - least).saturating_sub(5)
        }
    });
    wrong.sum::<usize>() as u64
}

struct PodEvent {
    name: String,
    node: String,
    deleted: bool,
}

async fn watch_pods(client: &Client) -> Result<Watch, Error> {
    Ok(client.dynamic(&Gvr::new("", "v1", "pods"), "default").watch(&ListOptions::default()).await?)
}

/// Reads events until one satisfies `last`.
async fn until(env: &Env, watch: &mut Watch, mut last: impl FnMut(&PodEvent) -> bool) -> Result<(), Error> {
    let reading = async {
        loop {
            let event = watch.next().await.ok_or_else(|| Error::Failed("the watch of pods ended".to_owned()))??;
            let (bytes, deleted) = match event {
                WatchEvent::Added(bytes) | WatchEvent::Modified(bytes) => (bytes, false),
                WatchEvent::Deleted(bytes) => (bytes, true),
                WatchEvent::Bookmark { .. } => continue,
            };
            let pod: Value = serde_json::from_slice(&bytes).map_err(|error| Error::Failed(error.to_string()))?;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (name, node) = (text(&pod["metadata"]["name"]), text(&pod["spec"]["nodeName"]));
            if last(&PodEvent { name, node, deleted }) {
                return Ok(());
            }
        }
    };
    env.timeout(PATIENCE, reading).await.map_err(|_| Error::Failed(format!("not done after {PATIENCE:?}")))?
}
