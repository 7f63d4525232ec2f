//! Simulated nodes: how long many of them take to start, and what they cost at rest, under a rollout, and when a zone dies.
//!
//! The API server and kubelet-sim run alone, except in the last measurement, to which the node lifecycle controller
//! belongs. The nodes have their ranges of pod addresses from a template, as no controller gives any.

use super::fleet::{Fleet, PATIENCE, REST, ZONES, times_to_run};
use super::measurement::Measurement;
use super::{Bench, Error};
use client::request::{Call, JSON};
use http::Method;
use serde_json::json;

const FLEETS: [usize; 2] = [1_000, 10_000];
const PODS_PER_NODE: usize = 30;
const ROLLOUT: usize = 10_000;

pub async fn run(bench: &Bench) -> Result<Vec<Measurement>, Error> {
    for nodes in FLEETS {
        of_fleet(bench, bench.count(nodes)).await?;
    }
    Ok(Vec::new())
}

/// Measures a fleet, and records each measurement as it comes.
async fn of_fleet(bench: &Bench, nodes: usize) -> Result<(), Error> {
    let mut fleet = Fleet::new(bench, "nodes", "embedded", nodes).await?;
    let start = fleet.start().await?;
    fleet.start_nodes().await?;
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
