//! A Deployment that grows and shrinks. No node agents: what is measured is the API server and the controllers.

use super::measurement::Measurement;
use super::objects::{pod, post};
use super::pod_events::{PodEvent, until, watch_pods};
use super::servers::Servers;
use super::{Bench, Error};
use client::request::Call;
use http::Method;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const REPLICAS: usize = 1000;
const MERGE: &str = "application/merge-patch+json";

/// A Deployment up to its replicas, by the pods that are there, and down to none.
pub async fn run(bench: &Bench) -> Result<Vec<Measurement>, Error> {
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
    let mut pods = watch_pods(&client, "default").await?;
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
