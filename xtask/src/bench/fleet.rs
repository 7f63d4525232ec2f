//! `Fleet`: simulated nodes beside an API server, and the measurements of what is done with them.

use super::load::closed_loop;
use super::measurement::Measurement;
use super::objects::{NAMESPACE, pod, post};
use super::process::Usage;
use super::scrape::Scrape;
use super::servers::{Servers, Setup};
use super::{Bench, Error};
use client::Client;
use client::request::Call;
use client::watch::WatchEvent;
use client::{ListOptions, watch::Watch};
use http::Method;
use proto::gvk::Gvr;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

pub const ZONES: usize = 3;
const CREATORS: usize = 32;
/// How long a cluster is watched that nobody uses.
pub const REST: Duration = Duration::from_secs(60);
/// How often objects are looked for, which costs the API server a look at each of them.
pub const LOOK: Duration = Duration::from_secs(1);
/// How long the number of events must stay the same until all are written.
const QUIET: Duration = Duration::from_secs(5);
pub const PATIENCE: Duration = Duration::from_secs(1_200);

/// A running measurement: what the servers had used at its beginning.
pub struct Start {
    usage: Usage,
    scrape: Scrape,
    at: Instant,
}

pub struct Fleet<'a> {
    pub bench: &'a Bench,
    pub servers: Servers,
    pub clients: Vec<Client>,
    pub nodes: usize,
    scenario: &'static str,
    engine: &'static str,
}

impl<'a> Fleet<'a> {
    /// Starts an API server for so many nodes.
    pub async fn new(
        bench: &'a Bench,
        scenario: &'static str,
        engine: &'static str,
        nodes: usize,
    ) -> Result<Self, Error> {
        let servers = Servers::start_as(bench, engine, &Setup::usual()).await?;
        let clients = servers.clients(CREATORS)?;
        Ok(Self { bench, servers, clients, nodes, scenario, engine })
    }

    /// Starts the nodes and waits until all are ready. They have their ranges of pod addresses from a template.
    pub async fn start_nodes(&mut self) -> Result<(), Error> {
        let zones: Vec<String> = (0..ZONES).map(|zone| format!("zone-{zone}")).collect();
        let template = json!({"name": "bench", "count": self.nodes, "zones": zones, "podCIDR": "10.0.0.0/8"});
        let path = self.servers.file("nodes.yaml", &template.to_string())?;
        let mut watch = self.watch("nodes", "", "").await?;
        self.servers.add(self.bench, "kubelet-sim", &[&format!("--node-template={path}")])?;
        let all_ready = self.bench.env.timeout(PATIENCE, until_ready(&mut watch, self.nodes)).await;
        all_ready.map_err(|_| Error::Failed(format!("not all nodes are ready after {PATIENCE:?}")))?
    }

    pub async fn start(&self) -> Result<Start, Error> {
        let scrape = Scrape::take(&self.clients[0]).await?;
        Ok(Start { usage: self.servers.usage()?, scrape, at: self.bench.env.now() })
    }

    pub async fn end(&self, what: String, operations: usize, start: &Start) -> Result<Measurement, Error> {
        let took = self.bench.env.now().duration_since(start.at);
        let after = self.servers.usage()?;
        let scrape = Scrape::take(&self.clients[0]).await?;
        let (requests, by_kind) = (scrape.requests_since(&start.scrape), scrape.writes_since(&start.scrape));
        let measurement =
            Measurement::new(self.scenario, what, self.engine, operations as u64, took, (&start.usage, &after));
        Ok(measurement.requests(requests).writes(&by_kind))
    }

    pub async fn rest(&self, what: String) -> Result<Measurement, Error> {
        let start = self.start().await?;
        self.bench.env.sleep(REST).await;
        self.end(what, self.nodes, &start).await
    }

    pub async fn get(&self, path: &str) -> Result<Value, Error> {
        let page = self.clients[0].call(&Call::new(Method::GET, path)).await?;
        serde_json::from_slice(&page).map_err(|error| Error::Failed(error.to_string()))
    }

    /// Waits until a selector finds no pod any more.
    pub async fn until_none(&self, selector: &str) -> Result<(), Error> {
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
    pub async fn until_quiet(&self) -> Result<(), Error> {
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

    pub async fn watch(&self, resource: &str, namespace: &str, label_selector: &str) -> Result<Watch, Error> {
        let options = ListOptions { label_selector: label_selector.to_owned(), ..ListOptions::default() };
        Ok(self.clients[0].dynamic(&Gvr::new("", "v1", resource), namespace).watch(&options).await?)
    }

    /// Creates pods that are bound already, in turn over the nodes.
    pub async fn create_pods(&self, count: usize, prefix: &str) -> Result<(), Error> {
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
pub async fn times_to_run(fleet: &Fleet<'_>, watch: &mut Watch, pods: usize) -> Result<Vec<Duration>, Error> {
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
