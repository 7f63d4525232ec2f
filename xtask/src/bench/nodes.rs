//! Simulated nodes: how long many of them take to start, and what they cost at rest, under a rollout, and when a zone dies.
//!
//! The API server and kubelet-sim run alone, except in the last measurement, to which the node lifecycle controller
//! belongs. The nodes have their ranges of pod addresses from a template, as no controller gives any.

use super::load::closed_loop;
use super::measurement::Measurement;
use super::objects::{NAMESPACE, pod, post};
use super::process::Usage;
use super::scrape::Scrape;
use super::servers::{Servers, Setup};
use super::{Bench, Error};
use client::Client;
use client::request::{Call, JSON};
use client::watch::WatchEvent;
use client::{ListOptions, watch::Watch};
use http::Method;
use proto::gvk::Gvr;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

const FLEETS: [usize; 2] = [1_000, 10_000];
const PODS_PER_NODE: usize = 30;
const ROLLOUT: usize = 10_000;
const ZONES: usize = 3;
const CREATORS: usize = 32;
/// How long a cluster is watched that nobody uses.
const REST: Duration = Duration::from_secs(60);
/// How often pods are looked for, which costs the API server a look at each of them.
const LOOK: Duration = Duration::from_secs(1);
/// How long the number of events must stay the same until all are written.
const QUIET: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(1_200);

pub async fn run(bench: &Bench) -> Result<Vec<Measurement>, Error> {
    for nodes in FLEETS {
        of_fleet(bench, bench.count(nodes)).await?;
    }
    Ok(Vec::new())
}

/// A running measurement: what the servers had used at its beginning.
struct Start {
    usage: Usage,
    scrape: Scrape,
    at: Instant,
}

struct Fleet<'a> {
    bench: &'a Bench,
    servers: Servers,
    clients: Vec<Client>,
    nodes: usize,
}

impl Fleet<'_> {
    async fn start(&self) -> Result<Start, Error> {
        let scrape = Scrape::take(&self.clients[0]).await?;
        Ok(Start { usage: self.servers.usage()?, scrape, at: self.bench.env.now() })
    }

    async fn end(&self, what: String, operations: usize, start: &Start) -> Result<Measurement, Error> {
        let took = self.bench.env.now().duration_since(start.at);
        let after = self.servers.usage()?;
        let requests = Scrape::take(&self.clients[0]).await?.requests_since(&start.scrape);
        let usage = (&start.usage, &after);
        Ok(Measurement::new("nodes", what, "embedded", operations as u64, took, usage).requests(requests))
    }

    async fn rest(&self, what: String) -> Result<Measurement, Error> {
        let start = self.start().await?;
        self.bench.env.sleep(REST).await;
        self.end(what, self.nodes, &start).await
    }

    async fn get(&self, path: &str) -> Result<Value, Error> {
        let page = self.clients[0].call(&Call::new(Method::GET, path)).await?;
        serde_json::from_slice(&page).map_err(|error| Error::Failed(error.to_string()))
    }

    /// Waits until a selector finds no pod any more.
    async fn until_none(&self, selector: &str) -> Result<(), Error> {
        let path = format!("{NAMESPACE}/pods?limit=1&{selector}");
        let looking = async {
            loop {
                let list = self.get(&path).await?;
                if list["items"].as_array().is_none_or(Vec::is_empty) {
                    return Ok(());
                }
                self.bench.env.sleep(LOOK).await;
            }
        };
        let impatient = |_| Error::Failed(format!("{path}: still some after {PATIENCE:?}"));
        self.bench.env.timeout(PATIENCE, looking).await.map_err(impatient)?
    }

    /// Waits until no more events are written: agents write those of many pods long after the pods run.
    async fn until_quiet(&self) -> Result<(), Error> {
        let path = format!("{NAMESPACE}/events?limit=1");
        let mut known = None;
        loop {
            let list = self.get(&path).await?;
            let present = list["metadata"]["remainingItemCount"].as_u64();
            if present == known {
                return Ok(());
            }
            known = present;
            self.bench.env.sleep(QUIET).await;
        }
    }

    async fn watch(&self, resource: &str, namespace: &str, label_selector: &str) -> Result<Watch, Error> {
        let options = ListOptions { label_selector: label_selector.to_owned(), ..ListOptions::default() };
        Ok(self.clients[0].dynamic(&Gvr::new("", "v1", resource), namespace).watch(&options).await?)
    }

    /// Creates pods that are bound already, in turn over the nodes.
    async fn create_pods(&self, count: usize, prefix: &str) -> Result<(), Error> {
        let collection = format!("{NAMESPACE}/pods");
        let nodes = self.nodes;
        let creating = closed_loop(&self.bench.env, &self.clients, count, |client, number| {
            let collection = &collection;
            async move { post(client, collection, bound(prefix, number, nodes)).await }
        });
        creating.await.must_succeed().map(drop)
    }
}

fn bound(prefix: &str, number: usize, nodes: usize) -> Value {
    let mut object = pod(&format!("{prefix}-{number}"), 0);
    object["metadata"]["labels"] = json!({"app": prefix});
    object["spec"]["nodeName"] = json!(format!("bench-{}", number % nodes));
    object["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "10m", "memory": "10Mi"}});
    object
}

/// Measures a fleet, and records each measurement as it comes.
async fn of_fleet(bench: &Bench, nodes: usize) -> Result<(), Error> {
    let setup = Setup::usual();
    let servers = Servers::start_as(bench, "embedded", &setup).await?;
    let clients = servers.clients(CREATORS)?;
    let mut fleet = Fleet { bench, servers, clients, nodes };
    let zones: Vec<String> = (0..ZONES).map(|zone| format!("zone-{zone}")).collect();
    let template = json!({"name": "bench", "count": nodes, "zones": zones, "podCIDR": "10.0.0.0/8"});
    let path = fleet.servers.file("nodes.yaml", &template.to_string())?;

    let mut watch = fleet.watch("nodes", "", "").await?;
    let start = fleet.start().await?;
    fleet.servers.add(bench, "kubelet-sim", &[&format!("--node-template={path}")])?;
    let all_ready = bench.env.timeout(PATIENCE, until_ready(&mut watch, nodes)).await;
    all_ready.map_err(|_| Error::Failed(format!("not all nodes are ready after {PATIENCE:?}")))??;
    bench.record(fleet.end(format!("start {nodes} nodes"), nodes, &start).await?);

    fleet.bench.env.sleep(REST).await;
    bench.record(fleet.rest(format!("{nodes} nodes at rest for a minute, without pods")).await?);

    let pods = nodes * PODS_PER_NODE;
    let start = fleet.start().await?;
    fleet.create_pods(pods, "idle").await?;
    fleet.until_none("fieldSelector=status.phase%21%3DRunning").await?;
    bench.record(fleet.end(format!("{pods} pods on {nodes} nodes, until all run"), pods, &start).await?);
    fleet.until_quiet().await?;
    bench.record(
        fleet.end(format!("{pods} pods on {nodes} nodes, until their events are written"), pods, &start).await?,
    );
    fleet.bench.env.sleep(REST).await;
    bench.record(fleet.rest(format!("{nodes} nodes at rest for a minute, with {pods} pods")).await?);

    bench.record(rollout(&fleet, bench.count(ROLLOUT)).await?);
    bench.record(zone_dies(&mut fleet).await?);
    Ok(())
}

/// Binds pods and watches how long each takes until it runs.
async fn rollout(fleet: &Fleet<'_>, pods: usize) -> Result<Measurement, Error> {
    let mut watch = fleet.watch("pods", "default", "app=rollout").await?;
    let start = fleet.start().await?;
    let creating = fleet.create_pods(pods, "rollout");
    let watching = fleet.bench.env.timeout(PATIENCE, times_to_run(fleet, &mut watch, pods));
    let (created, times) = futures::join!(creating, watching);
    created?;
    let times = times.map_err(|_| Error::Failed("the pods do not run".to_owned()))??;
    let what = format!("rollout of {pods} pods over {} nodes, from bound to running", fleet.nodes);
    Ok(fleet.end(what, pods, &start).await?.latencies(times))
}

/// Returns the next object of a watch that was added or modified.
async fn next(watch: &mut Watch) -> Result<Value, Error> {
    loop {
        let event = watch.next().await.ok_or_else(|| Error::Failed("the watch ended".to_owned()))??;
        if let WatchEvent::Added(bytes) | WatchEvent::Modified(bytes) = event {
            return serde_json::from_slice(&bytes).map_err(|error| Error::Failed(error.to_string()));
        }
    }
}

/// Reads events until so many nodes are ready.
async fn until_ready(watch: &mut Watch, nodes: usize) -> Result<(), Error> {
    let mut ready = BTreeSet::new();
    while ready.len() < nodes {
        let node = next(watch).await?;
        let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        if conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True") {
            ready.insert(node["metadata"]["name"].as_str().unwrap_or_default().to_owned());
        }
    }
    Ok(())
}

/// Returns the time that each pod takes from the event that it is there to the event that it runs.
async fn times_to_run(fleet: &Fleet<'_>, watch: &mut Watch, pods: usize) -> Result<Vec<Duration>, Error> {
    let (mut added, mut times) = (BTreeMap::new(), Vec::new());
    while times.len() < pods {
        let pod = next(watch).await?;
        let (name, now) = (pod["metadata"]["name"].as_str().unwrap_or_default().to_owned(), fleet.bench.env.now());
        if pod["status"]["phase"] != "Running" {
            added.entry(name).or_insert(now);
        } else if let Some(since) = added.remove(&name) {
            times.push(now.duration_since(since));
        }
    }
    Ok(times)
}

/// Cuts the power of one zone, with the controller that taints its nodes and deletes their pods.
async fn zone_dies(fleet: &mut Fleet<'_>) -> Result<Measurement, Error> {
    let controller =
        ["--leader-elect=false", "--controllers=node-lifecycle-controller", "--node-monitor-grace-period=20s"];
    fleet.servers.add(fleet.bench, "controller-manager", &controller)?;
    fleet.bench.env.sleep(REST).await;
    let outage = "{failure: crash, scope: zone, zones: [zone-0], after: 1s, for: 10h}";
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "orrery-fleet"},
        "data": {"failure.outage": outage},
    });
    let start = fleet.start().await?;
    let call = Call::new(Method::POST, "/api/v1/namespaces/kube-system/configmaps").body(JSON, map.to_string());
    fleet.clients[0].call(&call).await?;
    fleet.bench.env.sleep(REST).await;
    fleet
        .end(format!("a zone of {} nodes dies: the first minute", fleet.nodes), fleet.nodes.div_ceil(ZONES), &start)
        .await
}
