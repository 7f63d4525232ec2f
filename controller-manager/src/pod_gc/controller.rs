//! The pod garbage collector at its edge: a look around three times a minute.
//!
//! Corresponds to Run in pkg/controller/podgc/gc_controller.go.

use super::plan::{Observed, missing_nodes, plan};
use crate::context::{Context, Running};
use client::apply;
use jiff::Timestamp;
use proto::kinds::api::core::v1::{Node, Pod};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const PERIOD: Duration = Duration::from_secs(20);
/// How long a node has to be missing before the server is asked about it: it may just be being replaced.
const QUARANTINE_S: i64 = 40;

pub fn start(context: &Context) -> Running {
    let pods = context.informers.of::<Pod>().lister();
    let nodes = context.informers.of::<Node>().lister();
    let actor = context.act_as("pod-garbage-collector", "pod-garbage-collector");
    let (env, terminated_threshold) = (context.env.clone(), context.settings.terminated_pod_gc_threshold);
    Box::pin(async move {
        let mut missing_since: BTreeMap<String, Timestamp> = BTreeMap::new();
        loop {
            tokio::select! {
                biased;
                () = env.shutdown().cancelled() => return,
                () = env.sleep(PERIOD) => {}
            }
            let now = env.wall();
            let (pods, nodes) = (pods.list(), nodes.list());
            let missing = missing_nodes(&pods, &nodes);
            missing_since.retain(|name, _| missing.contains(name));
            let mut gone_nodes = BTreeSet::new();
            for name in missing {
                let since = *missing_since.entry(name.clone()).or_insert(now);
                let is_due = crate::clock::after(since, QUARANTINE_S) <= now;
                if is_due && actor.client.api::<Node>("").get(&name).await.is_err_and(|error| error.is_not_found()) {
                    gone_nodes.insert(name);
                }
            }
            let observed = Observed { pods, nodes, gone_nodes, terminated_threshold };
            for plan in plan(&observed, now) {
                if let Err(error) = apply(&actor.client, &actor.recorder, &plan).await {
                    tracing::warn!(%error, "pod garbage collection");
                }
            }
        }
    })
}
